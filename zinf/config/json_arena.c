/* zinf/config/json_arena.c - chunks that double, up to 1 MiB, and are freed together. */
#include "zinf/config/json_arena.h"

#include <stdlib.h>

enum { CHUNK_NBYTES_MIN = 1 << 12, CHUNK_NBYTES_MAX = 1 << 20 };

struct zinf_json_chunk {
    struct zinf_json_chunk *next;
    size_t used, cap;
    max_align_t data[];
};

void *zinf_json_arena_alloc(struct zinf_json_chunk **arena, size_t nbytes)
{
    struct zinf_json_chunk *c = *arena;
    void *at;

    nbytes = (nbytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!c || c->cap - c->used < nbytes) {
        size_t cap = !c ? CHUNK_NBYTES_MIN : c->cap < CHUNK_NBYTES_MAX / 2 ? c->cap * 2 : CHUNK_NBYTES_MAX;

        if (cap < nbytes)
            cap = nbytes;
        c = malloc(sizeof(*c) + cap);
        if (!c)
            return NULL;
        *c = (struct zinf_json_chunk){ .next = *arena, .cap = cap };
        *arena = c;
    }
    at = (char *)c->data + c->used;
    c->used += nbytes;
    return at;
}

void zinf_json_arena_free(struct zinf_json_chunk *arena)
{
    while (arena) {
        struct zinf_json_chunk *next = arena->next;

        free(arena);
        arena = next;
    }
}
