/* zinf/base/size.h - byte counts as people write them: "24GiB", "64 MiB", "1.5GB", "4096". */
#ifndef ZINF_BASE_SIZE_H_
#define ZINF_BASE_SIZE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* B, KB/MB/GB/TB are powers of 1000, KiB/MiB/GiB/TiB (and K/M/G/T) powers of 1024; case does not matter; a fraction is
 * allowed when the product is a whole number of bytes after rounding down. Returns 0, -EINVAL or -ERANGE. */
int zinf_size_parse(const char *text, uint64_t *out);
/* "24.0 MiB" into buf (at least 16 bytes); returns buf. */
char *zinf_size_format(uint64_t nbytes, char *buf, size_t buf_nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_SIZE_H_ */
