/* PID 1 of a box reads texts of the kernel that contain words of guests. */
#include "box/init/init.h"
#include "tap.h"

#include <string.h>

/* box/init/kill.c calls it; here are no children to reap. */
void programs_reap(int options)
{
        (void)options;
}

#define REST " 5 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 12345 4096 1 18446744073709551615\n"

static void test_stat(void)
{
        static const char *const bad[] = {"",
                                          "\n",
                                          "7",
                                          "7 (x",
                                          "7 (x)",
                                          "7 (x) S",
                                          "7 (x) S 1",
                                          "x (y) S 1" REST,
                                          "0 (x) S 1" REST,
                                          "-7 (x) S 1" REST,
                                          "99999999999 (x) S 1" REST,
                                          "7 (x) S -1" REST,
                                          "7 (x) S 1 5 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0"};
        struct process_stat stat;

        CHECK(process_stat_parse("7 (sleep) S 3" REST, &stat) == 0, "a line is read");
        CHECK(stat.pid == 7 && stat.parent == 3 && stat.state == 'S' && stat.threads == 3 && stat.start_ticks == 12345,
              "all of it");
        CHECK(process_stat_parse("7 (a) R 9 (b) Z 3" REST, &stat) == 0 && stat.parent == 3 && stat.state == 'Z',
              "a name with another line in it");
        CHECK(process_stat_parse("7 (\n) S 1 ) T 4" REST, &stat) == 0 && stat.parent == 4 && stat.state == 'T',
              "and one with line ends");
        CHECK(process_stat_parse("7 () S 3" REST, &stat) == 0 && stat.parent == 3, "and none at all");
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                CHECK(process_stat_parse(bad[i], &stat) < 0, "bad line %zu is none", i);
}

#define BEHIND " 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0\n"

static void test_sockets(void)
{
        static const struct {
                const char *line;
                int expected;
                unsigned port, is_loopback;
        } rows[] = {
                {"   0: 0100007F:1F90 00000000:0000 0A" BEHIND, 1, 8080, 1},
                {"   1: 0900007F:0050 00000000:0000 0A" BEHIND, 1, 80, 1},
                {"  12: 00000000:FFFF 00000000:0000 0A" BEHIND, 1, 65535, 0},
                {"   2: 0200FF0A:0050 00000000:0000 0A" BEHIND, 1, 80, 0},
                {"   3: 0100007F:1F90 0100007F:D431 01" BEHIND, 0, 8080, 1},
                {"   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A" BEHIND, 1, 8080,
                 1},
                {"   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A" BEHIND, 1, 8080,
                 0},
                {"   0: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A" BEHIND, 1, 8080,
                 1},
                {"   0: 0000000000000000FFFF00000100000A:1F90 00000000000000000000000000000000:0000 0A" BEHIND, 1, 8080,
                 0},
                {"  sl  local_address rem_address   st\n", -1, 0, 0},
                {"", -1, 0, 0},
                {"   0: 0100007F:1F90 00000000:0000\n", -1, 0, 0},
                {"   0: 0100007:1F90 00000000:0000 0A" BEHIND, -1, 0, 0},
                {"   0: 0100007F:1F90 00000000000000000000000000000000:0000 0A" BEHIND, -1, 0, 0},
                {"   0: 000000000000000000000000010000000:1F90 00000000:0000 0A" BEHIND, -1, 0, 0},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct init_port port = {0};
                int r = net_parse_socket(rows[i].line, &port);

                CHECK(r == rows[i].expected, "socket %zu: %d", i, rows[i].expected);
                if (r >= 0)
                        CHECK(port.port == rows[i].port && port.is_loopback == rows[i].is_loopback, "port %u, %s",
                              port.port, port.is_loopback ? "for the box alone" : "for all");
        }
}

int main(void)
{
        test_stat();
        test_sockets();
        return tap_done();
}
