/* zinf/checkpoint/sealed.c - text around text, so that a checksum can stand before what it is of. */
#define _GNU_SOURCE
#include "zinf/checkpoint/sealed.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zinf/base/crc32c.h"
#include "zinf/checkpoint/durable.h"

#define MAX_NBYTES (1l << 30)

static const char head[] = "{\"crc32c\":\"";
static const char middle[] = "\",\"content\":";
enum { HEAD = sizeof(head) - 1, CRC = 8, MIDDLE = sizeof(middle) - 1 };

int zinf_sealed_write(const char *dir, const char *name, const char *content, struct zinf_status *st)
{
    size_t n = strlen(content), total = HEAD + CRC + MIDDLE + n + 2;
    char *text = malloc(total + 1);
    int rc;

    if (!text)
        return zinf_fail(st, -ENOMEM, "%s/%s: out of memory", dir, name);
    snprintf(text, total + 1, "%s%08x%s%s}\n", head, zinf_crc32c(0, content, n), middle, content);
    rc = zinf_durable_put(dir, name, text, total, st);
    free(text);
    return rc;
}

static int slurp(const char *path, char **text, size_t *nbytes, struct zinf_status *st)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    int rc = 0;

    *text = NULL;
    if (!f)
        return zinf_fail(st, -errno, "%s: %s", path, strerror(errno));
    if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) || size > MAX_NBYTES)
        rc = zinf_fail(st, -EINVAL, "%s: cannot be read, or is larger than 1 GiB", path);
    if (!rc && !(*text = malloc((size_t)size + 1)))
        rc = zinf_fail(st, -ENOMEM, "%s: out of memory", path);
    if (!rc && fread(*text, 1, (size_t)size, f) != (size_t)size)
        rc = zinf_fail(st, -EIO, "%s: reading failed", path);
    fclose(f);
    if (!rc) {
        (*text)[size] = 0;
        *nbytes = (size_t)size;
    }
    return rc;
}

/* The exact bytes that write makes around the content are asked for, so every bit of the file is covered. */
static bool seal_fits(const char *text, size_t n)
{
    size_t before = HEAD + CRC + MIDDLE;
    char crc[CRC + 1];

    if (n < before + 2 || memcmp(text, head, HEAD) || memcmp(text + HEAD + CRC, middle, MIDDLE) ||
        memcmp(text + n - 2, "}\n", 2))
        return false;
    snprintf(crc, sizeof(crc), "%08x", zinf_crc32c(0, text + before, n - before - 2));
    return !memcmp(text + HEAD, crc, CRC);
}

int zinf_sealed_read(const char *dir, const char *name, struct zinf_json_doc *doc, const struct zinf_json **content,
                     struct zinf_status *st)
{
    char path[PATH_MAX], *text;
    size_t n = 0;
    int rc, len;

    memset(doc, 0, sizeof(*doc));
    len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (len < 0 || (size_t)len >= sizeof(path))
        return zinf_fail(st, -ENAMETOOLONG, "%.100s...: the path is too long", dir);
    rc = slurp(path, &text, &n, st);
    if (!rc && !seal_fits(text, n))
        rc = zinf_fail(st, -EBADMSG, "%s is damaged: its checksum does not fit its content", path);
    if (!rc)
        rc = zinf_json_parse(text, n, path, false, doc, st);
    free(text);
    if (!rc && !(*content = zinf_json_get(doc->root, "content"))) {
        zinf_json_free(doc);
        rc = zinf_fail(st, -EBADMSG, "%s is damaged: it has no content", path);
    }
    return rc;
}
