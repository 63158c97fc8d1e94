/* zinf/base/crc32c.h - CRC-32C (Castagnoli), by table or SSE4.2, same value. */
#ifndef ZINF_BASE_CRC32C_H_
#define ZINF_BASE_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* crc of the bytes so far (0 to start with) extended by data. zinf_crc32c(0, "123456789", 9) == 0xE3069283. */
uint32_t zinf_crc32c(uint32_t crc, const void *data, size_t nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_CRC32C_H_ */
