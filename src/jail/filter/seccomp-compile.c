/* Compiles the filter at build time, and prints it as rows for seccomp.c. libseccomp takes 5 ms for
 * it, and a privileged process that does not link it is smaller. Runs in: the build. */
#include "base/err.h"
#include "base/fd.h"
#include "seccomp.h"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define NAMESPACE_FLAGS                                                                                              \
        (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | \
         0x80 /* CLONE_NEWTIME */)

enum verdict { ALLOW, REFUSE, UNKNOWN };

static const struct {
        const char *name;
        enum verdict verdict;
} calls[] = {
#define CALL(verdict, name) {#name, verdict},
#include "seccomp-calls.def"
#undef CALL
};

/* Calls refused for one value of an int argument, and allowed otherwise by their row in
 * seccomp-calls.def. */
struct argument_rule {
        int number;
        unsigned argument;
        uint32_t value;
        uint32_t code; /* errno of the refusal */
};

#define ERRNO(n) SCMP_ACT_ERRNO(n)
/* Only the low 32 bits of an int argument reach the kernel's switch, so only they are compared. */
#define LOW32(arg, value)                                   \
        {                                                   \
                arg, SCMP_CMP_MASKED_EQ, 0xffffffffu, value \
        }

static const struct argument_rule refused_arguments[] = {
        {SYS_ioctl, 1, TIOCSTI, EPERM}, /* types into the caller's terminal */
        {SYS_ioctl, 1, 0x541C, EPERM},  /* TIOCLINUX pastes there */
        {SYS_ioctl, 1, TIOCCONS, EPERM},
        {SYS_ioctl, 1, 0x5423, EPERM}, /* TIOCSETD loads line discipline modules */
        {SYS_prctl, 0, PR_SET_MM, EPERM},
        {SYS_prctl, 0, PR_SET_SECCOMP, EPERM},
        {SYS_prctl, 0, PR_SET_PTRACER, EPERM},
        {SYS_prctl, 0, PR_SET_IO_FLUSHER, EPERM},
        {SYS_prctl, 0, 67,
         EPERM}, /* PR_SET_MEMORY_MERGE (Linux 6.4): the time of a write reveals the memory of others */
        {SYS_madvise, 2, MADV_MERGEABLE, EPERM}, /* likewise */
        {SYS_fcntl, 1, F_SETPIPE_SZ,
         EPERM}, /* the pipe is charged to the engine's user, which then gets small pipes only (pipe(7)) */
        {SYS_setrlimit, 0, RLIMIT_CORE, 0}, /* put_core_limit */
        {SYS_prlimit64, 0, 1, EPERM}, /* PID 1 of the box is box-init: without descriptors or memory it can neither save
                                         nor stop a sandbox */
        /* Nor with the lowest priority, or one processor that others keep busy. A user's
         * processes are the box's, with PID 1 among them. */
        {SYS_setpriority, 0, PRIO_USER, EPERM},
        {SYS_setpriority, 1, 1, EPERM},
        {SYS_ioprio_set, 0, 3, EPERM}, /* IOPRIO_WHO_USER */
        {SYS_ioprio_set, 1, 1, EPERM},
        {SYS_sched_setaffinity, 0, 1, EPERM},
        {SYS_sched_setattr, 0, 1, EPERM},
        {SYS_sched_setparam, 0, 1, EPERM},
        {SYS_sched_setscheduler, 0, 1, EPERM},
};
#define REFUSED_ARGUMENTS (sizeof(refused_arguments) / sizeof(refused_arguments[0]))

static int add(scmp_filter_ctx context, uint32_t action, const char *name, struct cloche_err *e)
{
        int number = seccomp_syscall_resolve_name(name), r;

        if (number == __NR_SCMP_ERROR)
                return err_set(e, CLOCHE_E_SECCOMP, "libseccomp does not know the call %s", name);
        r = seccomp_rule_add(context, action, number, 0);
        return r < 0 ? err_os(e, CLOCHE_E_SECCOMP, -r, "add a rule for %s", name) : 0;
}

enum kind { BOX, ROOT, TEMPLATE, KINDS };

static const char *const kind_names[KINDS] = {[BOX] = "box", [ROOT] = "root", [TEMPLATE] = "template"};

/* Calls that a box of this kind may make beyond those of each box. chroot(2) is none of root's:
 * it needs a capability that root has not. */
static const struct {
        enum kind kind;
        const char *name;
} more_calls[] = {{ROOT, "setgroups"}, {TEMPLATE, "setns"}, {TEMPLATE, "seccomp"}};

static int is_more(enum kind kind, const char *name)
{
        for (size_t i = 0; i < sizeof(more_calls) / sizeof(more_calls[0]); i++)
                if (more_calls[i].kind == kind && strcmp(more_calls[i].name, name) == 0)
                        return 1;
        return 0;
}

/* The errno of a refused call. In a box with root syncfs(2) is answered with success and not done,
 * because scripts of packages end if it fails: the box's own files are in memory, or on a disk that
 * ends with it, and a file at the top of its image would flush the disk of the host. fsync(2) is
 * done everywhere, also in volumes. */
static int refusal(enum kind kind, const char *name)
{
        return kind == ROOT && strcmp(name, "syncfs") == 0 ? 0 : EPERM;
}

static int add_calls(scmp_filter_ctx context, enum kind kind, struct cloche_err *e)
{
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
                int r = 0;

                if (calls[i].verdict == ALLOW || is_more(kind, calls[i].name))
                        r = add(context, SCMP_ACT_ALLOW, calls[i].name, e);
                else if (calls[i].verdict == REFUSE)
                        r = add(context, ERRNO(refusal(kind, calls[i].name)), calls[i].name, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int rule(scmp_filter_ctx context, uint32_t action, int number, unsigned count,
                const struct scmp_arg_cmp *compare, struct cloche_err *e)
{
        int r = seccomp_rule_add_array(context, action, number, count, compare);

        return r < 0 ? err_os(e, CLOCHE_E_SECCOMP, -r, "add an argument rule for call %d", number) : 0;
}

/* Allow a call if this argument has one of these values (and the first comparisons hold);
 * else fail with this errno. libseccomp cannot express "none of", so every small value gets a
 * rule and the rest gets one. */
static int allow_only(scmp_filter_ctx context, int number, const struct scmp_arg_cmp *first, unsigned first_count,
                      unsigned argument, uint64_t allowed, int code, struct cloche_err *e)
{
        struct scmp_arg_cmp compare[4];
        unsigned last = 63 - (unsigned)__builtin_clzll(allowed);
        int r;

        for (unsigned i = 0; i < first_count; i++)
                compare[i] = first[i];
        for (unsigned value = 0; value <= last; value++) {
                compare[first_count] = (struct scmp_arg_cmp)LOW32(argument, value);
                r = rule(context, allowed >> value & 1 ? SCMP_ACT_ALLOW : ERRNO(code), number, first_count + 1, compare,
                         e);
                if (r < 0)
                        return r;
        }
        compare[first_count] = (struct scmp_arg_cmp){argument, SCMP_CMP_GT, last, 0};
        return rule(context, ERRNO(code), number, first_count + 1, compare, e);
}

#define BIT(n) (UINT64_C(1) << (n))

/* Stream and datagram sockets with their ordinary protocols; SCTP, DCCP and raw sockets had many
 * kernel bugs. */
static int add_internet_rules(scmp_filter_ctx context, uint32_t family, struct cloche_err *e)
{
        for (uint32_t type = 0; type < 16; type++) {
                struct scmp_arg_cmp first[] = {LOW32(0, family), {1, SCMP_CMP_MASKED_EQ, 0xf, type}};
                int r;

                if (type == SOCK_STREAM)
                        r = allow_only(context, SCMP_SYS(socket), first, 2, 2, BIT(0) | BIT(IPPROTO_TCP), EPERM, e);
                else if (type == SOCK_DGRAM)
                        r = allow_only(context, SCMP_SYS(socket), first, 2, 2, BIT(0) | BIT(IPPROTO_UDP), EPERM, e);
                else
                        r = rule(context, ERRNO(EPERM), SCMP_SYS(socket), 2, first, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* useradd(8) and su(1) end if the kernel seems to have an audit log that they may not write
 * (libaudit); a kernel without one fails with EPROTONOSUPPORT. */
static int netlink_refusal(enum kind kind)
{
        return kind == ROOT ? EPROTONOSUPPORT : EPERM;
}

static int add_socket_rules(scmp_filter_ctx context, enum kind kind, struct cloche_err *e)
{
        for (uint32_t family = 0; family <= AF_NETLINK; family++) {
                struct scmp_arg_cmp only[] = {LOW32(0, family)};
                int r;

                if (family == AF_INET || family == AF_INET6)
                        r = add_internet_rules(context, family, e);
                else if (family == AF_NETLINK) /* routes only, for getaddrinfo(3) and getifaddrs(3) */
                        r = allow_only(context, SCMP_SYS(socket), only, 1, 2, BIT(0), netlink_refusal(kind), e);
                else
                        r = rule(context, family == AF_UNIX ? SCMP_ACT_ALLOW : ERRNO(EPERM), SCMP_SYS(socket), 1, only,
                                 e);
                if (r < 0)
                        return r;
        }
        return rule(context, ERRNO(EPERM), SCMP_SYS(socket), 1, &(struct scmp_arg_cmp){0, SCMP_CMP_GT, AF_NETLINK, 0},
                    e);
}

/* clone(2) without any namespace flag; each flag has a rule so that the call fails with EPERM. */
static int add_clone_rules(scmp_filter_ctx context, struct cloche_err *e)
{
        int r = rule(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                     &(struct scmp_arg_cmp){0, SCMP_CMP_MASKED_EQ, NAMESPACE_FLAGS, 0}, e);

        for (uint32_t flag = 1; r == 0 && flag; flag <<= 1)
                if (flag & NAMESPACE_FLAGS)
                        r = rule(context, ERRNO(EPERM), SCMP_SYS(clone), 1,
                                 &(struct scmp_arg_cmp){0, SCMP_CMP_MASKED_EQ, flag, flag}, e);
        return r;
}

static int add_argument_rules(scmp_filter_ctx context, enum kind kind, struct cloche_err *e)
{
        int r = allow_only(context, SCMP_SYS(socketpair), NULL, 0, 0, BIT(AF_UNIX), EPERM, e);

        if (r == 0)
                r = add_clone_rules(context, e);
        if (r == 0)
                r = add_socket_rules(context, kind, e);
        return r;
}

/* libseccomp cannot express "every value but these" of a call, nor "none but these" of many values.
 * Such tests are written by hand and put in front of its program: classic BPF only jumps forward by
 * offsets, so a prelude changes nothing behind it. A foreign architecture skips them: its numbers
 * mean other calls, and libseccomp's first test kills it. */
#define PRELUDE_MAX 1024

struct prelude {
        struct sock_filter rows[PRELUDE_MAX];
        size_t count;
};

static void put(struct prelude *p, struct sock_filter row)
{
        if (p->count < PRELUDE_MAX) /* a full prelude is refused later */
                p->rows[p->count++] = row;
}

static void put_load(struct prelude *p, size_t offset)
{
        put(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void put_load_argument(struct prelude *p, unsigned argument)
{
        put_load(p, offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t)); /* the low half */
}

static void put_answer(struct prelude *p, uint32_t code)
{
        put(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code));
}

static void put_refuse(struct prelude *p)
{
        put_answer(p, EPERM);
}

/* Add a jump; aim() sets its target to the code that follows. */
static size_t put_jump(struct prelude *p)
{
        put(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
        return p->count - 1;
}

static void aim(struct prelude *p, size_t jump)
{
        p->rows[jump].k = (uint32_t)(p->count - jump - 1);
}

static void put_refused_arguments(struct prelude *p, int number)
{
        for (size_t i = 0; i < REFUSED_ARGUMENTS; i++) {
                const struct argument_rule *row = &refused_arguments[i];

                if (row->number != number)
                        continue;
                put_load_argument(p, row->argument);
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, row->value, 0, 1));
                put_answer(p, row->code);
        }
}

/* With a limit of 1 a crash starts no core handler of the host, which would run as root; any
 * other limit starts it (core(5), core_pattern; fs/coredump.c). A program that disables its
 * core dumps must succeed, and there are none: so the call does nothing and returns 0.
 * Reading the limit is permitted. */
static void put_core_limit(struct prelude *p)
{
        size_t other_limits;

        put_load_argument(p, 1);
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, RLIMIT_CORE, 1, 0));
        other_limits = put_jump(p);
        put_load_argument(p, 2);
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2));
        put_load(p, offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t) + sizeof(uint32_t));
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 7, 0));
        for (size_t half = 0; half < 2; half++) { /* a filter cannot write the old limit */
                put_load(p, offsetof(struct seccomp_data, args) + 3 * sizeof(uint64_t) + half * sizeof(uint32_t));
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
                put_refuse(p);
        }
        put_answer(p, 0);
        aim(p, other_limits);
}

/* Core scheduling: a process may read its cookie. A process that shares a cookie runs beside
 * others, and one that makes more takes more cores. A template's child makes the cookie of its
 * box. */
static void put_core_scheduling(struct prelude *p, int for_template)
{
        size_t unrelated;

        put_load_argument(p, 0);
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SCHED_CORE, 1, 0));
        unrelated = put_jump(p);
        put_load_argument(p, 1);
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K,
                                            for_template ? PR_SCHED_CORE_CREATE : PR_SCHED_CORE_GET, 0, 1));
        put_refuse(p);
        aim(p, unrelated);
}

/* -- the arguments of a template -------------------------------------------------------------------------------- */

struct range {
        int64_t level; /* of an option; -1: no level */
        uint32_t first, last;
};

static const struct range requests[] = {
#define REQUEST(first, last) {-1, first, last},
#define OPTION(level, first, last)
#define IDS(call, users, groups)
#include "seccomp-template.def"
#undef REQUEST
#undef OPTION
};
static const struct range options[] = {
#define REQUEST(first, last)
#define OPTION(level, first, last) {level, first, last},
#include "seccomp-template.def"
#undef REQUEST
#undef OPTION
#undef IDS
};
static const struct {
        int number;
        unsigned users, groups; /* arguments */
} ids[] = {
#define REQUEST(first, last)
#define OPTION(level, first, last)
#define IDS(call, users, groups) {SYS_##call, users, groups},
#include "seccomp-template.def"
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RANGES_MAX 64

/* The level, if any, is in the argument before. */
static void put_ranges(struct prelude *p, unsigned argument, const struct range *ranges, size_t count)
{
        size_t permitted[RANGES_MAX];

        for (size_t i = 0; i < count && i < RANGES_MAX; i++) {
                if (ranges[i].level >= 0) {
                        put_load_argument(p, argument - 1);
                        put(p,
                            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)ranges[i].level, 0, 4));
                }
                put_load_argument(p, argument);
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, ranges[i].first, 0, 2));
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, ranges[i].last, 1, 0));
                permitted[i] = put_jump(p);
        }
        put_refuse(p);
        for (size_t i = 0; i < count && i < RANGES_MAX; i++)
                aim(p, permitted[i]);
}

static void put_either(struct prelude *p, unsigned arguments, uint32_t one, uint32_t other)
{
        for (unsigned i = 0; i < 6; i++) {
                if (!(arguments >> i & 1))
                        continue;
                put_load_argument(p, i);
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 2, 0));
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 1, 0));
                put_refuse(p);
        }
}

static void put_template_rules(struct prelude *p, int number)
{
        _Static_assert(COUNT(requests) <= RANGES_MAX && COUNT(options) <= RANGES_MAX, "each range has a place");

        if (number == SYS_ioctl)
                put_ranges(p, 1, requests, COUNT(requests));
        if (number == SYS_setsockopt || number == SYS_getsockopt)
                put_ranges(p, 2, options, COUNT(options));
        for (size_t i = 0; i < COUNT(ids); i++)
                if (ids[i].number == number) {
                        put_either(p, ids[i].users, SECCOMP_USER, UINT32_MAX);
                        put_either(p, ids[i].groups, SECCOMP_GROUP, UINT32_MAX);
                }
        /* A filter may only reduce the rights of a run: no flag that lets another process decide
         * its calls. */
        if (number == SYS_seccomp) {
                put_either(p, BIT(0), SECCOMP_SET_MODE_FILTER, SECCOMP_SET_MODE_FILTER);
                put_either(p, BIT(1), 0, 0);
        }
}

/* -- the calls of the prelude ------------------------------------------------------------------------------------ */

static void put_rules(struct prelude *p, int number, int for_template)
{
        put_refused_arguments(p, number);
        if (number == SYS_prlimit64)
                put_core_limit(p);
        if (number == SYS_prctl)
                put_core_scheduling(p, for_template);
        if (for_template)
                put_template_rules(p, number);
}

#define CALLS_MAX 64 /* the tree's jumps are bytes: 4 steps a call */
_Static_assert(4 * CALLS_MAX <= 256, "a tree of so many calls has no jump beyond 255");

struct rules {
        int numbers[CALLS_MAX];
        size_t count, hits[CALLS_MAX], ends[2 * CALLS_MAX], end_count;
};

static void list_calls(struct rules *rules, int for_template)
{
        for (int number = 0; number < 1024 && rules->count < CALLS_MAX; number++) {
                struct prelude own = {0};

                put_rules(&own, number, for_template);
                if (own.count > 0)
                        rules->numbers[rules->count++] = number;
        }
}

/* The kernel runs a new filter once for each number, to remember the calls that are allowed
 * whatever their arguments are (seccomp_cache_prepare, Linux 5.11). A list of all rules doubled
 * the steps of most numbers, and took a sixth of the time to load the filter. */
static void put_tree(struct prelude *p, struct rules *rules, size_t first, size_t count)
{
        size_t half = count / 2, at = p->count;

        if (count == 1) {
                put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rules->numbers[first], 1, 0));
                rules->ends[rules->end_count++] = put_jump(p);
                rules->hits[first] = put_jump(p);
                return;
        }
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)rules->numbers[first + half], 0, 0));
        put_tree(p, rules, first, half);
        p->rows[at].jt = (uint8_t)(p->count - at - 1);
        put_tree(p, rules, first + half, count - half);
}

static int write_prelude(struct prelude *p, int for_template, struct cloche_err *e)
{
        struct rules rules = {0};

        list_calls(&rules, for_template);
        put_load(p, offsetof(struct seccomp_data, arch));
        put(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0));
        rules.ends[rules.end_count++] = put_jump(p); /* a foreign architecture */
        put_load(p, offsetof(struct seccomp_data, nr));
        put_tree(p, &rules, 0, rules.count);
        for (size_t i = 0; i < rules.count; i++) {
                aim(p, rules.hits[i]);
                put_rules(p, rules.numbers[i], for_template);
                rules.ends[rules.end_count++] = put_jump(p);
        }
        for (size_t i = 0; i < rules.end_count; i++)
                aim(p, rules.ends[i]);
        return p->count < PRELUDE_MAX && rules.count < CALLS_MAX
                       ? 0
                       : err_set(e, CLOCHE_E_SECCOMP, "the rules by argument have more than %d steps", PRELUDE_MAX);
}

static int export(scmp_filter_ctx context, const struct prelude *prelude, struct sock_fprog *ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
        struct stat st;
        struct sock_filter *filter;
        size_t count;
        int r;

        if (fd < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "make a memory file");
        r = seccomp_export_bpf(context, fd);
        if (r < 0)
                return err_os(e, CLOCHE_E_SECCOMP, -r, "compile the filter");
        if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return err_os(e, CLOCHE_E_SECCOMP, errno, "read the filter");
        count = (size_t)st.st_size / sizeof(*filter);
        if (st.st_size <= 0 || count + prelude->count > BPF_MAXINSNS)
                return err_set(e, CLOCHE_E_SECCOMP, "the compiled filter has %lld bytes", (long long)st.st_size);
        filter = calloc(count + prelude->count, sizeof(*filter));
        if (!filter)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "hold the filter");
        memcpy(filter, prelude->rows, prelude->count * sizeof(*filter));
        r = fd_read_full(fd, filter + prelude->count, (size_t)st.st_size);
        if (r < 0) {
                free(filter);
                return err_os(e, CLOCHE_E_SECCOMP, -r, "read the filter");
        }
        *ret = (struct sock_fprog){.len = (unsigned short)(count + prelude->count), .filter = filter};
        return 0;
}

static int build(scmp_filter_ctx context, enum kind kind, struct sock_fprog *ret, struct cloche_err *e)
{
        struct prelude prelude = {0};
        int r;

        /* On x86-64 a filter for the native ABI alone treats i386 and x32 as a bad architecture. */
        r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (r == 0)
                r = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* binary tree: 8 steps, not 300 */
        if (r < 0)
                return err_os(e, CLOCHE_E_SECCOMP, -r, "set up libseccomp");
        r = add_calls(context, kind, e);
        if (r == 0)
                r = add_argument_rules(context, kind, e);
        if (r == 0)
                r = write_prelude(&prelude, kind == TEMPLATE, e);
        if (r == 0)
                r = export(context, &prelude, ret, e);
        return r;
}

static int compile(enum kind kind, struct sock_fprog *ret, struct cloche_err *e)
{
        scmp_filter_ctx context = seccomp_init(ERRNO(ENOSYS));
        int r;

        if (!context)
                return err_set(e, CLOCHE_E_SECCOMP, "libseccomp could not start");
        r = build(context, kind, ret, e);
        seccomp_release(context);
        return r;
}

int main(int argc, char **argv)
{
        struct sock_fprog program = {0};
        struct cloche_err e = {0};
        int kind = 0;

        while (argc == 2 && kind < KINDS && strcmp(argv[1], kind_names[kind]) != 0)
                kind++;
        if (argc != 2 || kind == KINDS)
                return 2;
        if (compile((enum kind)kind, &program, &e) < 0) {
                fprintf(stderr, "seccomp-compile: %s\n", e.msg);
                return 1;
        }
        for (unsigned i = 0; i < program.len; i++)
                printf("{0x%x, %u, %u, 0x%x},\n", program.filter[i].code, program.filter[i].jt, program.filter[i].jf,
                       program.filter[i].k);
        free(program.filter);
        return ferror(stdout) ? 1 : 0;
}
