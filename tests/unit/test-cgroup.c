/* Finding control groups from the texts of hosts unlike ours. */
#include "jail/cgroup.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char version_1[] =
        "24 1 8:1 / / rw - ext4 /dev/vda rw\n"
        "30 24 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
        "31 24 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
        "32 24 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "33 24 0:29 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer\n";
static const char groups_1[] = "4:memory:/user.slice\n3:pids:/\n2:cpu,cpuacct:/a/b\n1:freezer:/\n";

static void test_version_1(void)
{
        struct cgroup_host host;

        cgroup_host_find(&host, version_1, groups_1);
        CHECK(host.places[CGROUP_MEMORY].version == 1, "memory is found in version 1");
        CHECK(strcmp(host.places[CGROUP_MEMORY].base, "/sys/fs/cgroup/memory/user.slice") == 0,
              "below the caller's own group: %s", host.places[CGROUP_MEMORY].base);
        CHECK(strcmp(host.places[CGROUP_PIDS].base, "/sys/fs/cgroup/pids") == 0, "the root group adds no slash");
        CHECK(strcmp(host.places[CGROUP_CPU].base, host.places[CGROUP_CPUACCT].base) == 0,
              "controllers mounted together share a directory");
        CHECK(host.places[CGROUP_FREEZER].version == 1, "optional fields of mountinfo do not confuse");
}

static void test_nothing(void)
{
        struct cgroup_host host;

        cgroup_host_find(&host, "24 1 8:1 / / rw - ext4 /dev/vda rw\n", "0::/\n");
        for (int c = 0; c < CGROUP_CONTROLLERS; c++) {
                CHECK(host.places[c].version == 0, "controller %d is not invented", c);
                CHECK(host.places[c].reason[0] != '\0', "and the reason is said: %s", host.places[c].reason);
        }
}

static void test_malformed(void)
{
        static const char *const texts[] = {"", "\n\n", " - ", "a b c - cgroup", "1 2 3 4 5 6 - cgroup cgroup", "- - - -"};
        struct cgroup_host host;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                cgroup_host_find(&host, texts[i], ":::::\n::\nmemory\n4:memory");
                CHECK(host.places[CGROUP_MEMORY].version == 0, "malformed mountinfo %zu finds nothing", i);
        }
}

static void test_name_is_not_prefix(void)
{
        struct cgroup_host host;

        cgroup_host_find(&host, "30 24 0:26 / /c rw - cgroup cgroup rw,cpuset,memoryx\n", "4:cpuset,memoryx:/\n");
        CHECK(host.places[CGROUP_CPU].version == 0, "cpuset is not cpu");
        CHECK(host.places[CGROUP_MEMORY].version == 0, "memoryx is not memory");
}

/* -- limits of a living box, in files that are none of the kernel's ---------------------------------------------- */

static char base[64];

static void put(const char *file, const char *text)
{
        char path[160];
        FILE *out;

        snprintf(path, sizeof(path), "%s/box7/%s", base, file);
        out = fopen(path, "w");
        if (out) {
                fputs(text, out);
                fclose(out);
        }
}

static int has(const char *file, const char *text)
{
        char path[160], line[100] = "";
        FILE *in;

        snprintf(path, sizeof(path), "%s/box7/%s", base, file);
        in = fopen(path, "r");
        if (in) {
                if (!fgets(line, sizeof(line), in))
                        line[0] = '\0';
                fclose(in);
        }
        return strcmp(line, text) == 0;
}

static void make_base(struct cgroup_host *host, int version)
{
        char path[160];

        snprintf(base, sizeof(base), "/tmp/test-cgroup-XXXXXX");
        CHECK(mkdtemp(base) != NULL, "a directory for version %d", version);
        snprintf(path, sizeof(path), "%s/box7", base);
        CHECK(mkdir(path, 0755) == 0, "with a box");
        memset(host, 0, sizeof(*host));
        for (int c = CGROUP_MEMORY; c <= CGROUP_CPU; c++) {
                host->places[c].version = version;
                snprintf(host->places[c].base, sizeof(host->places[c].base), "%s", base);
        }
}

static void remove_base(void)
{
        static const char *const files[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.usage_in_bytes", "memory.max", "memory.swap.max",
                                            "memory.current", "memory.reclaim", "pids.max", "cpu.max", "cpu.cfs_quota_us", ""};
        char path[160];

        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                snprintf(path, sizeof(path), "%s/box7/%s", base, files[i]);
                remove(path);
        }
        remove(base);
}

static void test_limit_2(void)
{
        struct cgroup_host host;
        struct cloche_err e = {0};

        make_base(&host, 2);
        put("memory.current", "50000000\n");
        put("memory.reclaim", "");
        put("memory.max", "90000000");
        put("memory.swap.max", "max");
        put("pids.max", "10");
        put("cpu.max", "max 100000");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = 60000000}, &e) == 0 && has("memory.max", "60000000"), "memory is lowered: %s", e.msg);
        CHECK(has("pids.max", "10") && has("cpu.max", "max 100000"), "what is 0 stays as it is");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = 40000000, .pids = 20}, &e) == -CLOCHE_E_INVALID_ARGUMENT, "not below what is used: %s", e.msg);
        CHECK(strstr(e.msg, "40000000") && strstr(e.msg, "50000000"), "both numbers are named");
        CHECK(has("memory.max", "60000000") && has("pids.max", "10"), "and nothing was changed");
        CHECK(has("memory.reclaim", "10000000"), "but it was asked for");
        put("memory.max", ""); /* the kernel's files start anew with each text */
        put("pids.max", "");
        put("cpu.max", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){UINT64_MAX, 20, 150}, &e) == 0, "all at once: %s", e.msg);
        CHECK(has("memory.max", "max") && has("pids.max", "20") && has("cpu.max", "150000 100000"), "as they are said there");
        host.places[CGROUP_PIDS].version = 0;
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.pids = 20}, &e) == -CLOCHE_E_GUARD_MISSING, "a limit nobody holds is refused: %s", e.msg);
        remove_base();
}

static void test_limit_1(void)
{
        struct cgroup_host host;
        struct cloche_err e = {0};

        make_base(&host, 1);
        put("memory.limit_in_bytes", "90000000");
        put("memory.usage_in_bytes", "50000000\n");
        put("pids.max", "10");
        put("cpu.cfs_quota_us", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){95000000, 30, 50}, &e) == 0, "without accounting of swap: %s", e.msg);
        CHECK(has("memory.limit_in_bytes", "95000000") && has("pids.max", "30") && has("cpu.cfs_quota_us", "50000"), "all three");
        put("memory.limit_in_bytes", "95000000"); /* of which two digits are overwritten */
        put("memory.memsw.limit_in_bytes", "");
        CHECK(cgroup_limit(&host, 7, &(struct cgroup_limits){.memory_bytes = UINT64_MAX}, &e) == 0, "with it: %s", e.msg);
        CHECK(has("memory.memsw.limit_in_bytes", "-1") && has("memory.limit_in_bytes", "-1000000"), "none is -1 there");
        remove_base();
}

int main(void)
{
        test_version_1();
        test_nothing();
        test_malformed();
        test_name_is_not_prefix();
        test_limit_2();
        test_limit_1();
        return tap_done();
}
