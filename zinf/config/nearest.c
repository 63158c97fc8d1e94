/* zinf/config/nearest.c - edit distance, two letters changing places being one edit. */
#include "zinf/config/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { WORD_NBYTES_MAX = 127 };   /* a longer name is not mistyped by a letter or two */

static bool same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t m = a < b ? a : b;

    return m < c ? m : c;
}

/* Both lengths are at most WORD_NBYTES_MAX. Three rows of the usual table are kept: a transposition looks two rows
 * back. */
static uint32_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    uint32_t rows[3][WORD_NBYTES_MAX + 1];

    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (uint32_t)j;
    for (size_t i = 1; i <= na; i++) {
        uint32_t *now = rows[i % 3];
        const uint32_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        now[0] = (uint32_t)i;
        for (size_t j = 1; j <= nb; j++) {
            now[j] = min3(last[j] + 1, now[j - 1] + 1, last[j - 1] + !same(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]) && before[j - 2] + 1 < now[j])
                now[j] = before[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

const char *zinf_nearest(const char *word, const char *const *names, uint32_t nr_names)
{
    size_t nw = strlen(word);
    uint32_t best = (uint32_t)(nw * 2 / 5) + 1;   /* the first distance that is too far */
    const char *found = NULL;

    if (nw == 0 || nw > WORD_NBYTES_MAX)
        return NULL;
    if (best < 2)
        best = 2;
    for (uint32_t i = 0; i < nr_names; i++) {
        size_t nn = strlen(names[i]);
        size_t apart = nn > nw ? nn - nw : nw - nn;

        if (nn > WORD_NBYTES_MAX || apart >= best)
            continue;
        uint32_t d = distance(word, nw, names[i], nn);
        if (d < best && d < nw) {   /* d == nw: not one letter in common */
            best = d;
            found = names[i];
        }
    }
    return found;
}
