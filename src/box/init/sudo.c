/* cloche-sudo, in the PATH of a sandbox whose commands run as root: those of people and scripts
 * that write sudo run too. It gives nobody a right: root runs the command as it is, or as
 * another user by runuser(1) of the image; any other user is refused, as no_new_privs keeps all
 * programs of a box from more rights. Runs in: the box; static. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_END "="

static int usage(int status)
{
        fprintf(status ? stderr : stdout,
                "usage: sudo [-u USER] [-i | -s] [NAME=VALUE…] [COMMAND [ARGUMENT…]]\n"
                "Commands of this sandbox run as root already: sudo starts them as they are, with the same "
                "environment.\n"
                "-b -E -H -k -K -n -P -S -v and -g, -p, -C, -h with a value change nothing.\n");
        return status;
}

/* Take words such as A=1 before the command out of the list. */
static char **set_variables(char **words)
{
        while (*words && strchr(*words, NAME_END[0]) && (*words)[0] != NAME_END[0] && putenv(*words) == 0)
                words++;
        return words;
}

static int run(const char *user, char **words)
{
        char *shell[] = {(char *)"/bin/sh", NULL, NULL};
        size_t count = 0;
        char **all;

        if (!*words)
                words = shell;
        while (words[count])
                count++;
        all = calloc(count + 5, sizeof(*all));
        if (!all)
                return 1;
        memcpy(all + 4, words, count * sizeof(*all));
        if (!user) {
                execvp(words[0], words);
                fprintf(stderr, "sudo: %s: %s\n", words[0], strerror(errno));
        } else {
                memcpy(all, ((char *[]){(char *)"runuser", (char *)"-u", (char *)user, (char *)"--"}),
                       4 * sizeof(*all));
                execvp(all[0], all);
                fprintf(stderr, "sudo: -u needs runuser (util-linux) in the image: %s\n", strerror(errno));
        }
        free(all);
        return errno == ENOENT ? 127 : 126;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {{"user", required_argument, NULL, 'u'},
                                                {"help", no_argument, NULL, 'x'},
                                                {"login", no_argument, NULL, 'i'},
                                                {"shell", no_argument, NULL, 's'},
                                                {"preserve-env", optional_argument, NULL, 'E'},
                                                {"set-home", no_argument, NULL, 'H'},
                                                {"non-interactive", no_argument, NULL, 'n'},
                                                {0}};
        const char *user = NULL;
        int option;

        while ((option = getopt_long(argc, argv, "+u:g:p:C:h:isbEHkKnPSv", options, NULL)) != -1) {
                if (option == 'x' || option == '?')
                        return usage(option == 'x' ? 0 : 1);
                if (option == 'u')
                        user = strcmp(optarg, "root") == 0 ? NULL : optarg;
        }
        if (geteuid() != 0) {
                fprintf(stderr,
                        "sudo: only root may use it here, and no program of a sandbox can become root: start the "
                        "command from one that runs as root\n");
                return 1;
        }
        return run(user, set_variables(argv + optind));
}
