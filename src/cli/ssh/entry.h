/* Entries of ssh_config(5) for sandboxes. */
#ifndef CLOCHE_CLI_SSH_ENTRY_H
#define CLOCHE_CLI_SSH_ENTRY_H

#include <stdio.h>

#define ENTRY_MARK "# Written by cloche ssh-config.\n" /* the first line of a file that is ours */

struct entry {
        const char *name;            /* of the sandbox; NULL: all sandboxes, by NAME.cloche */
        const char *user;            /* to log in as */
        const char *program, *place; /* cloche, and the directory of the keys: absolute paths */
        const char *socket;          /* of the daemon, an absolute path; NULL: the default one's */
};

/* 0, or a line was printed: the text has a character that no quotes of ssh_config(5)
 * hold. subject: for the message. */
int entry_check_path(const char *subject, const char *path);
int entry_check_user(const char *user);
/* Its texts have passed the checks. */
void entry_print(FILE *out, const struct entry *entry);

#endif
