/* The daemon's token, and secrets that follow from it. Runs in: the CLI, cloched; as
 * the user who started them. */
#ifndef CLOCHE_USER_TOKEN_H
#define CLOCHE_USER_TOKEN_H

#include <stddef.h>

#define TOKEN_BYTES_MAX 256
#define TOKEN_SECRET_SIZE 41 /* 40 hexadecimal digits, and a NUL */
#define TOKEN_E2B_KEY "e2b key"
#define TOKEN_E2B_KEY_PREFIX "e2b_"

/* The file that cloched uses without --token-file. */
void token_default_path(char *ret, size_t size);
/* Read the first line of the file; named: NULL: of the default one. ret_path: the file, for
 * messages. 0 or -errno, -ENODATA: it is empty. */
int token_read(const char *named, char *ret_path, size_t path_size, char ret[TOKEN_BYTES_MAX]);
/* HMAC-SHA256 (RFC 2104) of the token and a text, cut to 20 bytes. From one result nobody can
 * compute the token, or the result for another text. */
void token_derive(const char *token, const char *kind, const char *of, char ret[TOKEN_SECRET_SIZE]);

#endif
