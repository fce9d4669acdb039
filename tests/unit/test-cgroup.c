/* Finding control groups from the texts of hosts unlike ours. */
#include "jail/cgroup.h"
#include "tap.h"

#include <string.h>

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

int main(void)
{
        test_version_1();
        test_nothing();
        test_malformed();
        test_name_is_not_prefix();
        return tap_done();
}
