/* zinf/config/utf8.h - which bytes are UTF-8. */
#ifndef ZINF_CONFIG_UTF8_H_
#define ZINF_CONFIG_UTF8_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Length of the character at s, 1 to 4; 0 when the bytes there (nbytes of them, at least 1) are not UTF-8: truncated, a
 * lone continuation, longer than needed, a surrogate, or above U+10FFFF. */
size_t zinf_utf8_nbytes(const char *s, size_t nbytes);
/* Writes code (at most U+10FFFF, no surrogate) to out[4]; returns its length. */
size_t zinf_utf8_encode(uint32_t code, char *out);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_UTF8_H_ */
