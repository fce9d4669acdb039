/* cloche-sudo, in the PATH of a sandbox whose commands run as root: those of people and scripts
 * that write sudo run too, and steps of builds whose image has a USER. It gives nobody a right:
 * root runs the command as it is, or becomes another user of the image before; any other user is
 * refused, as no_new_privs keeps all programs of a box from more rights. Runs in: the box; static,
 * so names are looked up in the files, without the libraries of the image. */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_END "="
#define HOMES "/home/" /* a box has its own, so those that useradd(8) made are in no image */
#define GROUPS_MAX 64

static int usage(int status)
{
        fprintf(status ? stderr : stdout,
                "usage: sudo [-u USER] [-g GROUP] [-i | -s] [NAME=VALUE…] [COMMAND [ARGUMENT…]]\n"
                "Commands of this sandbox run as root already: sudo starts them as they are, with the same "
                "environment.\n"
                "-b -E -H -k -K -n -P -S -v and -p, -C, -h with a value change nothing.\n");
        return status;
}

/* Take words such as A=1 before the command out of the list. */
static char **set_variables(char **words)
{
        while (*words && strchr(*words, NAME_END[0]) && (*words)[0] != NAME_END[0] && putenv(*words) == 0)
                words++;
        return words;
}

/* -- other users ------------------------------------------------------------------------------------------------ */

struct identity {
        uid_t uid;
        gid_t gid, groups[GROUPS_MAX];
        size_t group_count;
        char name[64], home[256];
};

/* A number, perhaps after '#'; or UINT32_MAX. */
static uint32_t number_of(const char *text)
{
        char *end;
        unsigned long number;

        text += *text == '#';
        number = strtoul(text, &end, 10);
        return *text && strspn(text, "0123456789") == strlen(text) && number < UINT32_MAX ? (uint32_t)number
                                                                                          : UINT32_MAX;
}

/* A number without a row is a user of the group 0, as container engines have it. */
static int find_user(const char *name, struct identity *ret)
{
        FILE *file = fopen("/etc/passwd", "re");
        const uint32_t number = number_of(name);
        const struct passwd *row = NULL;

        while (file && (row = fgetpwent(file)) && strcmp(row->pw_name, name) != 0 && row->pw_uid != number)
                ;
        if (row) {
                ret->uid = row->pw_uid;
                ret->gid = row->pw_gid;
                snprintf(ret->name, sizeof(ret->name), "%s", row->pw_name);
                snprintf(ret->home, sizeof(ret->home), "%s", row->pw_dir);
        } else {
                ret->uid = number;
        }
        if (file)
                fclose(file);
        return row || number != UINT32_MAX ? 0 : -1;
}

/* name NULL: the groups that list the user, besides its own. */
static int find_groups(const char *name, struct identity *ret)
{
        FILE *file = fopen("/etc/group", "re");
        const uint32_t number = name ? number_of(name) : UINT32_MAX;
        const struct group *row = NULL;
        int found = !name || number != UINT32_MAX;

        if (name && number != UINT32_MAX)
                ret->gid = number;
        while (file && (row = fgetgrent(file))) {
                if (name && strcmp(row->gr_name, name) == 0) {
                        ret->gid = row->gr_gid;
                        found = 1;
                }
                for (char **member = row->gr_mem; !name && *member; member++)
                        if (strcmp(*member, ret->name) == 0 && ret->group_count < GROUPS_MAX)
                                ret->groups[ret->group_count++] = row->gr_gid;
        }
        if (file)
                fclose(file);
        return found ? 0 : -1;
}

/* A home directory that is missing in this box, as others of /home are. */
static void make_home(const struct identity *who)
{
        if (strncmp(who->home, HOMES, strlen(HOMES)) == 0 && !strchr(who->home + strlen(HOMES), '/') &&
            mkdir(who->home, 0755) == 0 && lchown(who->home, who->uid, who->gid) < 0)
                (void)rmdir(who->home);
}

/* group NULL: the user's own. */
static int become(const char *user, const char *group)
{
        struct identity who = {.home = "/"};

        if (find_user(user, &who) < 0 || find_groups(group, &who) < 0) {
                fprintf(stderr, "sudo: /etc/passwd and /etc/group have no user %s%s%s\n", user,
                        group ? " and group " : "", group ? group : "");
                return 1;
        }
        make_home(&who);
        if (setgroups(who.group_count, who.groups) < 0 || setresgid(who.gid, who.gid, who.gid) < 0 ||
            setresuid(who.uid, who.uid, who.uid) < 0) {
                fprintf(stderr, "sudo: cannot become %s: %s\n", user, strerror(errno));
                return 1;
        }
        if (setenv("HOME", who.home, 1) < 0 || setenv("USER", *who.name ? who.name : user, 1) < 0 ||
            setenv("LOGNAME", *who.name ? who.name : user, 1) < 0)
                return 1;
        return 0;
}

/* -- the command ------------------------------------------------------------------------------------------------ */

static int run(char **words)
{
        char *shell[] = {(char *)"/bin/sh", NULL, NULL};

        if (!*words)
                words = shell;
        execvp(words[0], words);
        fprintf(stderr, "sudo: %s: %s\n", words[0], strerror(errno));
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
        const char *user = NULL, *group = NULL;
        int option;

        while ((option = getopt_long(argc, argv, "+u:g:p:C:h:isbEHkKnPSv", options, NULL)) != -1) {
                if (option == 'x' || option == '?')
                        return usage(option == 'x' ? 0 : 1);
                if (option == 'u')
                        user = strcmp(optarg, "root") == 0 ? NULL : optarg;
                if (option == 'g')
                        group = optarg;
        }
        if (geteuid() != 0) {
                fprintf(stderr,
                        "sudo: only root may use it here, and no program of a sandbox can become root: start the "
                        "command from one that runs as root\n");
                return 1;
        }
        if ((user || group) && become(user ? user : "root", group) != 0)
                return 1;
        return run(set_variables(argv + optind));
}
