/* zinf/config/keys.h - the table of every key of ds_config.json and of zinf's own: it drives parsing, checks, --explain
 * and --list.
 *
 * A section is whatever is a prefix of a key. Threads: the table is constant. */
#ifndef ZINF_CONFIG_KEYS_H_
#define ZINF_CONFIG_KEYS_H_

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum zinf_key_type {
    ZINF_KEY_BOOL,
    ZINF_KEY_INT,          /* a whole number in [min, max]; 5e8 is one */
    ZINF_KEY_NUMBER,       /* in [min, max] */
    ZINF_KEY_SIZE,         /* bytes, or "24GiB"; in [min, max] */
    ZINF_KEY_TEXT,
    ZINF_KEY_CHOICE,       /* one of choices, case does not matter */
    ZINF_KEY_PATHS,        /* a text or an array of texts */
    ZINF_KEY_BETAS,        /* two numbers in [0, 1) */
    ZINF_KEY_EVERY,        /* "step", "none" or {"every": N}: 1, 0 or N */
    ZINF_KEY_FREE          /* a section or value whose inside is not looked at, but for rule */
};

enum zinf_key_rule {
    ZINF_RULE_USED,             /* the run follows it */
    ZINF_RULE_NOTE,             /* accepted and checked; changes nothing, `why` says why */
    ZINF_RULE_ONLY_DEFAULT,     /* any value but the default would change the run: refused */
    ZINF_RULE_REFUSE_ENABLED,   /* FREE: refused when an "enabled" inside is true (or it is true itself) */
    ZINF_RULE_REFUSE_PRESENT    /* FREE: refused unless null, false or empty */
};

enum {
    ZINF_KEY_NULL = 1,          /* null means the default; shown as null when the default is null */
    ZINF_KEY_AUTO = 2,          /* "auto" is a value: resolved later */
    ZINF_KEY_AUTO_DEFAULT = 4   /* "auto" means the default, as in DeepSpeed's strict sections; elsewhere an error */
};

struct zinf_key {
    const char *path;
    enum zinf_key_type type;
    enum zinf_key_rule rule;
    uint32_t    flags;
    const char *dflt;           /* JSON text; NULL = nothing (worked out from other keys, or a section) */
    double      min, max;
    const char *choices;        /* "none|cpu|nvme" */
    const char *later;          /* further choices that this version refuses */
    const char *same_as;        /* this is another spelling of that key */
    const char *why;            /* NOTE: why it changes nothing; a refusal: what is asked for, in words */
    const char *instead;        /* a refusal: what to write instead; NULL = the default */
    const char *doc;            /* one line */
};

extern const struct zinf_key zinf_keys[];
extern const uint32_t zinf_nr_keys;

const struct zinf_key *zinf_key_find(const char *path);      /* NULL when there is none */
bool zinf_key_is_section(const char *path);                  /* "" is one */
/* The name of the member of section (a path, "" = top level) that key is or lies under, copied to buf; false = not
 * inside. */
bool zinf_key_member(const struct zinf_key *key, const char *section, char *buf, uint32_t buf_nbytes);
const char *zinf_key_leaf(const char *path);                 /* "device" of "offload_param.device" */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_KEYS_H_ */
