/* zinf/checkpoint/portable_dir.h - the folders of a checkpoint: which of them is it, who writes it, and how one takes its place.
 *
 *   NAME         a whole checkpoint
 *   .NAME.tmp    being written, while its lock is held; otherwise garbage
 *   .NAME.old    the checkpoint NAME, if there is no NAME (a crash between two renames); otherwise garbage
 *   .NAME.gone   being removed: garbage
 *
 * Whoever holds the OFD lock of DIR/lock owns a hidden folder: a writer fills it, a sweeper empties it. Folders that hold any
 * file but those of a checkpoint are nobody's and left alone. Functions return 0 or -errno without a line. */
#ifndef ZINF_CHECKPOINT_PORTABLE_DIR_H_
#define ZINF_CHECKPOINT_PORTABLE_DIR_H_

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZINF_PORTABLE_STATE "state.safetensors"
#define ZINF_PORTABLE_JSON "checkpoint.json"
#define ZINF_PORTABLE_NAME_MAX 200u
#define ZINF_PORTABLE_HIDDEN_NBYTES (ZINF_PORTABLE_NAME_MAX + 8u)

enum zinf_hidden { ZINF_HIDDEN_TMP, ZINF_HIDDEN_OLD, ZINF_HIDDEN_GONE };

/* A name can stand for a checkpoint: not empty, no '/', no '.' in front, at most 200 bytes. */
bool zinf_portable_name_ok(const char *name);
/* Its hidden relative; name must be ok. Returns out. */
const char *zinf_portable_hidden(char out[ZINF_PORTABLE_HIDDEN_NBYTES], const char *name, enum zinf_hidden which);
/* The other way: the name and which of its relatives `hidden` is; false = none. */
bool zinf_portable_unhide(const char *hidden, char name[ZINF_PORTABLE_HIDDEN_NBYTES], enum zinf_hidden *which);

struct zinf_claim { int dir_fd, lock_fd; };

/* Owns .NAME.tmp, new and empty; waits a moment for one who is sweeping it. -EBUSY: somebody writes it; -EEXIST: holds other
 * files. */
int  zinf_portable_claim(int parent_fd, const char *name, struct zinf_claim *out);
void zinf_portable_release(struct zinf_claim *c);
/* Removes what is claimed and releases it. */
void zinf_portable_abandon(int parent_fd, const char *name, struct zinf_claim *c);
/* The claimed folder, published, loses its lock file. */
void zinf_portable_unlock(struct zinf_claim *c);
/* 0: NAME can be written: there is none, or it is a checkpoint or an empty folder; -EEXIST: it is something else. */
int  zinf_portable_replaceable(int parent_fd, const char *name);
/* .NAME.tmp becomes NAME and the one before it is removed, with flushes between. *published: it has its name, whatever is
 * returned. exchange false: as on a file system that cannot swap two names. */
int  zinf_portable_publish(int parent_fd, const char *name, bool exchange, bool *published);
/* Removes a hidden folder unless somebody holds it (-EBUSY) or it holds other files (-EEXIST). -ENOENT: there is none. */
int  zinf_portable_discard(int parent_fd, const char *name, enum zinf_hidden which);
/* After a crash: .NAME.old becomes NAME again where there is no NAME and nobody is writing it. */
int  zinf_portable_restore(int parent_fd, const char *name);
/* Somebody is writing NAME. */
bool zinf_portable_held(int parent_fd, const char *name);
int  zinf_portable_exists(int parent_fd, const char *name);    /* 0 or -errno */
/* NAME, under any of its names, is renamed out of the way and removed. -ENOENT: there is none. */
int  zinf_portable_erase(int parent_fd, const char *name);
int  zinf_portable_sync(int parent_fd);

#ifdef __cplusplus
}
#endif
#endif /* ZINF_CHECKPOINT_PORTABLE_DIR_H_ */
