/* Names in a box: queries and responses, the addresses that stand for names, and the log of decisions. */
#include "helpers/egress/read/dns.h"
#include "helpers/egress/read/names.h"
#include "helpers/egress/read/report.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static size_t check_host(unsigned char *to, const char *labels, size_t labels_size, unsigned type)
{
        static const unsigned char head[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};

        memcpy(to, head, sizeof(head));
        memcpy(to + 12, labels, labels_size);
        memcpy(to + 12 + labels_size, (unsigned char[]){(unsigned char)(type >> 8), (unsigned char)type, 0, 1}, 4);
        return 12 + labels_size + 4;
}

static void test_questions(void)
{
        unsigned char in[600], out[DNS_MESSAGE_MAX];
        struct dns_question q;
        uint32_t address = 0xc6120001;
        size_t size = check_host(in, "\3WWW\1a\4test\0", 12, 1), n;

        CHECK(dns_read(in, size, &q) == DNS_OK && q.is_host && strcmp(q.name, "www.a.test") == 0 && q.type == 1,
              "a question: %s", q.name);
        n = dns_write(&q, DNS_OK, &address, 60, out);
        CHECK(n == size + 16 && out[0] == 0x12 && out[2] == 0x81 && out[3] == 0x80 && out[7] == 1 &&
                      memcmp(out + n - 4, "\xc6\x12\0\1", 4) == 0,
              "its answer");
        n = dns_write(&q, DNS_NO_SUCH_NAME, NULL, 0, out);
        CHECK(n == size && (out[3] & 15) == 3 && out[7] == 0 && memcmp(out + 12, in + 12, n - 12) == 0,
              "no such name; the question as it was asked");
        for (size_t cut = 0; cut < size; cut++) {
                int code = dns_read(in, cut, &q);

                if (code == DNS_OK)
                        CHECK(0, "cut at %zu it is no question", cut);
                if (code > 0)
                        (void)dns_write(&q, (enum dns_code)code, NULL, 0, out);
        }
        in[2] |= 0x80;
        CHECK(dns_read(in, size, &q) == -1, "an answer is not answered");
        in[2] = 0x28;
        CHECK(dns_read(in, size, &q) == DNS_UNKNOWN && dns_write(&q, DNS_UNKNOWN, NULL, 0, out) == 12,
              "another operation");
        in[2] = 1;
        in[5] = 2;
        CHECK(dns_read(in, size, &q) == DNS_MALFORMED, "two questions");
        size = check_host(in, "\3a.b\4test\0", 10, 1);
        CHECK(dns_read(in, size, &q) == DNS_OK && !q.is_host, "a dot in a label makes no other name");
        size = check_host(in, "\3a\0b\4test\0", 10, 1);
        CHECK(dns_read(in, size, &q) == DNS_OK && !q.is_host, "nor a NUL");
        size = check_host(in, "\0", 1, 2);
        CHECK(dns_read(in, size, &q) == DNS_OK && !q.is_host, "the root");
        size = check_host(in, "\xc0\x0c", 2, 1);
        CHECK(dns_read(in, size, &q) == DNS_MALFORMED, "a pointer");
}

static void test_addresses(void)
{
        struct egress_names *names = malloc(sizeof(*names));
        uint32_t first, again, other, one;
        char name[32];
        int r = 0;

        if (!names)
                abort();
        names_init(names, 7);
        CHECK(names_address(names, "a.test", 0, &first) == 0 && names_is_pool(first) &&
                      strcmp(names_find(names, first), "a.test") == 0,
              "a name has an address");
        CHECK(names_address(names, "a.test", 0, &again) == 0 && again == first, "always the same");
        CHECK(names_address(names, "b.test", 0, &other) == 0 && other != first, "another has another");
        CHECK(!names_find(names, 0xc6120000) && !names_find(names, other + 1) && !names_find(names, 0x08080808) &&
                      !names_find(names, first | 1 << 12),
              "others stand for none");
        names_hold(names, first);
        for (int i = 0; r == 0 && i < NAMES_MAX - 3; i++) {
                snprintf(name, sizeof(name), "n%d.test", i);
                r = names_address(names, name, SECOND, &one);
        }
        CHECK(r == 0, "there is room for as many as there are places");
        CHECK(names_address(names, "more.test", 10 * SECOND, &one) == -28, "then for none, while all are new");
        CHECK(names_address(names, "more.test", 100 * SECOND, &one) == 0, "until one is old");
        CHECK(names_find(names, first) && !names_find(names, other), "the oldest goes, if it is not in use");
        CHECK(one != other && strcmp(names_find(names, one), "more.test") == 0, "and its address is not given at once");
        names_release(names, first);
        CHECK(names_address(names, "b.test", 100 * SECOND, &again) == 0 && again != other && !names_find(names, first),
              "what was asked for again has a new one");
        egress_names_done(names);
        free(names);
}

static json_t *told[2000];
static size_t told_count;

static void tell(void *data, json_t *decision)
{
        (void)data;
        told[told_count++] = decision;
}

static json_int_t count_of(size_t i)
{
        return json_integer_value(json_object_get(told[i], "count"));
}

static void test_reports(void)
{
        struct report *report = malloc(sizeof(*report));
        struct decision decision = {.kind = "dns", .host = "a.test", .why = "no rule", .port = 53};
        char name[32];

        if (!report)
                abort();
        report_init(report, tell, NULL);
        for (int i = 0; i < 100; i++)
                report_decision(report, &decision);
        CHECK(told_count == 10 && count_of(0) == 1 && count_of(9) == 1, "the first are told at once");
        report_tick(report);
        CHECK(told_count == 11 && count_of(10) == 90, "the others together");
        report_decision(report, &decision);
        CHECK(told_count == 12, "in the next second the first is told at once again");
        report_tick(report);
        CHECK(told_count == 12, "nothing happened");
        decision.allowed = 1;
        report_decision(report, &decision);
        CHECK(told_count == 13 && !strcmp(json_string_value(json_object_get(told[12], "verdict")), "allowed"),
              "another is another");
        for (int i = 0; i < 1500; i++) {
                snprintf(name, sizeof(name), "n%d.test", i);
                decision.host = name;
                report_decision(report, &decision);
        }
        CHECK(told_count < 520, "too many are dropped: %zu told", told_count);
        report_done(report);
        free(report);
        while (told_count > 0)
                json_decref(told[--told_count]);
}

int main(void)
{
        test_questions();
        test_addresses();
        test_reports();
        return tap_done();
}
