/* zinf/data/text.h - text as bytes: a token is a byte, a sample a window of seq bytes, its targets one byte further.
 *
 *   stream   |---- window 0 ----|---- window 1 ----| ... |-- window n-1 --|+1 byte| rest dropped
 *             training: the first 90 %, in a new seeded order every epoch    held out: the last 10 %, in order
 *
 * With eval_data all of data trains and all of eval_data is evaluated. Sample i is a pure function of the files, seed
 * and i. RAM: one entry per file. Threads: fetch may be called from any thread. */
#ifndef ZINF_DATA_TEXT_H_
#define ZINF_DATA_TEXT_H_

#include <stdint.h>

#include "zinf/base/log.h"
#include "zinf/base/status.h"
#include "zinf/zinf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_text;

struct zinf_text_opts {
    const char *data;                /* file or folder; borrowed for the call */
    const char *eval_data;           /* NULL: the last 10 % of data's windows are held out */
    uint32_t seq;
    uint64_t seed;
    uint64_t vocab;                  /* the model's; it must hold every byte */
    const struct zinf_log *log;      /* what was left out is told here; NULL = silent */
};

/* Returns 0, -EINVAL (too short: the line says how many bytes are needed; vocab below 256), -ENOENT, -ENOMEM, or what
 * reading said; on failure *out is NULL. */
int  zinf_text_open(const struct zinf_text_opts *opts, struct zinf_text **out, struct zinf_status *st);
/* The source, valid until close. fetch returns 0, -EINVAL (no such sample), or -EIO when a file changed its size. */
const struct zinf_source *zinf_text_source(const struct zinf_text *t);
void zinf_text_close(struct zinf_text *t);      /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_DATA_TEXT_H_ */
