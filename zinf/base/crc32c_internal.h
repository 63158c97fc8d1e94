/* zinf/base/crc32c_internal.h - the ways zinf_crc32c may take, one by one, for the tests that compare them. */
#ifndef ZINF_BASE_CRC32C_INTERNAL_H_
#define ZINF_BASE_CRC32C_INTERNAL_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t zinf_crc32c_table(uint32_t crc, const void *data, size_t nbytes);
/* False: the instructions are missing and zinf_crc32c_x86 must not be called. */
bool zinf_crc32c_x86_available(void);
uint32_t zinf_crc32c_x86(uint32_t crc, const void *data, size_t nbytes);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_BASE_CRC32C_INTERNAL_H_ */
