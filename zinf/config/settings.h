/* zinf/config/settings.h - every key of the table with its value and where the value came from.
 *
 *   file --\
 *           gather.c: known keys only --> convert.c: types, ranges, refusals --> config.c: what keys mean together
 *   --set -/
 * Threads: settings belong to the thread that loads them; afterwards they are constant. */
#ifndef ZINF_CONFIG_SETTINGS_H_
#define ZINF_CONFIG_SETTINGS_H_

#include <stdbool.h>
#include <stdint.h>

#include "zinf/base/status.h"
#include "zinf/config/json.h"
#include "zinf/config/keys.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a value stands: the file, or one --set. */
struct zinf_origin {
    struct zinf_json_doc doc;
    char *where;                   /* "ds.json", "--set optimizer.params.lr=1"; owned */
    bool is_set;
};

enum zinf_origin_kind { ZINF_FROM_DEFAULT, ZINF_FROM_AUTO, ZINF_FROM_GIVEN };

struct zinf_setting {
    const struct zinf_key *key;
    const struct zinf_json *given;         /* the winner's value; NULL = nobody gave one */
    const struct zinf_origin *origin;      /* of given */
    bool free_on, free_present;            /* FREE keys: an "enabled" inside is true; there is something inside */
    enum zinf_origin_kind from;
    bool is_null, is_auto;                 /* then the rest is unset */
    bool     boolean;
    int64_t  integer;                      /* INT, SIZE */
    double   number, number2;              /* NUMBER; BETAS */
    const char *text;                      /* TEXT; CHOICE: points to choice */
    char     choice[16];                   /* as the table spells it */
};

struct zinf_settings {
    struct zinf_setting *at;               /* zinf_nr_keys, in the order of the table */
    struct zinf_origin *origins;           /* the file, then every --set */
    uint32_t nr_origins;
};

/* Room for the file and nr_sets --set. Returns 0 or -ENOMEM. */
int  zinf_settings_create(uint32_t nr_sets, struct zinf_settings **out, struct zinf_status *st);
void zinf_settings_free(struct zinf_settings *s);                  /* NULL is fine */
/* The path must be in the table. */
struct zinf_setting *zinf_settings_get(const struct zinf_settings *s, const char *path);
/* Something other than null and "auto" was given. */
bool zinf_setting_given(const struct zinf_setting *s);
/* One line, -EINVAL: "ds.json:3:5: path: what". A setting nobody gave is named by its path alone. */
int  zinf_setting_fail(const struct zinf_setting *s, struct zinf_status *st, const char *fmt, ...) ZINF_PRINTF(3, 4);
/* The value as JSON text into buf, cut to fit; returns buf. */
char *zinf_setting_format(const struct zinf_setting *s, char *buf, uint32_t buf_nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_SETTINGS_H_ */
