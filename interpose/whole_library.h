/* A shared library of which a part is missing: to load it would end the process, by a signal that dlopen()
 * does not catch. */
#ifndef DDL_INTERPOSE_WHOLE_LIBRARY_H
#define DDL_INTERPOSE_WHOLE_LIBRARY_H

#ifdef __cplusplus
extern "C" {
#endif

/* Whether its file ends before what it says is to be loaded of it. Of what is no library dlopen() knows why.
 */
__attribute__((visibility("hidden"))) int ddl_is_cut_short(const char* path);

#ifdef __cplusplus
}
#endif

#endif
