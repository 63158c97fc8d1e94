/* zinf/config/json_arena.h - the memory of one document: it grows, and goes all at once. */
#ifndef ZINF_CONFIG_JSON_ARENA_H_
#define ZINF_CONFIG_JSON_ARENA_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct zinf_json_chunk;

/* nbytes, aligned for anything, from *arena (NULL at the start). NULL when there is no memory. */
void *zinf_json_arena_alloc(struct zinf_json_chunk **arena, size_t nbytes);
void zinf_json_arena_free(struct zinf_json_chunk *arena);      /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CONFIG_JSON_ARENA_H_ */
