/* The permitted connections of a sandbox: parsing of rules, and their effect. */
#include "helpers/egress/read/address.h"
#include "helpers/egress/read/policy.h"
#include "tap.h"

#include <arpa/inet.h>
#include <string.h>

static struct policy *load(const char *text, struct cloche_err *e)
{
        json_t *json = json_loads(text, 0, NULL);
        struct policy *policy = NULL;

        if (policy_load(json, &policy, e) < 0)
                policy = NULL;
        json_decref(json);
        return policy;
}

static void refuses(const char *text, const char *place)
{
        struct cloche_err e = {0};
        struct policy *policy = load(text, &e);

        CHECK(!policy && e.code == CLOCHE_E_INVALID_ARGUMENT && strstr(e.msg, place), "refused: %s: %s", text, e.msg);
        policy_free(policy);
}

/* Services of this machine: only their own rule allows them, any rule denies them. */
static void test_services(void)
{
        static const struct {
                const char *policy, *name;
                unsigned port;
                int resolves, allowed;
        } rows[] = {
                {"{\"allow\": [\"host:db:5432\"]}", "db.host.internal", 5432, 1, 1},
                {"{\"allow\": [\"host:db:5432\"]}", "db.host.internal", 5433, 1, 0},
                {"{\"allow\": [\"host:db:5432\"]}", "a.db.host.internal", 5432, 0, 0},
                {"{\"allow\": [\"host:db:5432\"]}", "host.internal", 5432, 0, 0},
                {"{\"allow\": [\"host:db:5432\", \"*\"]}", "x.host.internal", 5432, 0, 0},
                {"{\"allow\": [\"*\", \"*.internal\", \"db.host.internal\"]}", "db.host.internal", 5432, 0, 0},
                {"{\"allow\": [\"*\"]}", "host.internal", 80, 0, 0},
                {"{\"allow\": [\"*\"]}", "myhost.internal", 80, 1, 1},
                {"{\"allow\": [\"host:db:5432\"], \"deny\": [\"*\"]}", "db.host.internal", 5432, 0, 0},
                {"{\"allow\": [\"host:db:5432\"], \"deny\": [\"host:db:5432\"]}", "db.host.internal", 5432, 0, 0},
                {"{\"allow\": [\"host:db:5432\"], \"deny\": [\"host:db:5431\"]}", "db.host.internal", 5432, 1, 1},
                {"{\"allow\": [\"host:80\"]}", "host", 80, 1, 1},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct cloche_err e = {0};
                struct policy *policy = load(rows[i].policy, &e);

                CHECK(policy && policy_resolves(policy, rows[i].name).allowed == rows[i].resolves &&
                              policy_name(policy, rows[i].name, rows[i].port).allowed == rows[i].allowed,
                      "%s: %s:%u", rows[i].policy, rows[i].name, rows[i].port);
                policy_free(policy);
        }
        refuses("{\"allow\": [\"host:a b:80\"]}", "allow[0]");
        refuses("{\"allow\": [\"host:a:0\"]}", "allow[0]");
        refuses("{\"allow\": [\"host:a:1:2\"]}", "allow[0]");
        refuses("{\"allow\": [\"host::80\"]}", "allow[0]");
}

static void test_reading(void)
{
        static const char *const wrong[] = {
                "",
                " ",
                "a b",
                "a..b",
                ".a",
                "a:",
                "a:0",
                "a:65536",
                "a:80-",
                "a:80-79",
                "a:-1",
                "a:80x",
                "a:80-90-100",
                "a:+80",
                "a: 80",
                "*a",
                "a.*",
                "*.",
                "**",
                "*.*",
                "http://a",
                "a/b",
                "10.0.0.1/8",
                "10.0.0.0/33",
                "10.0.0.0/",
                "10.0.0.0/8/8",
                "10.0.0",
                "10.0.0.256",
                "010.0.0.1",
                "0x7f.1",
                "127.1",
                "2130706433",
                "1.2.3.4.5",
                "[::1]",
                "::1",
                "fd00::/8",
                "::ffff:10.0.0.1",
                "m\\u00fcnchen.de",
                "a_\\u200bb",
                "a@b",
                "a,b",
                "-a",
                "-1:80",
                "a.1",
                "a.0x1f",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b",
        };
        static const char *const right[] = {"a",
                                            "a.b",
                                            "A.b.",
                                            "xn--mnchen-3ya.de",
                                            "_srv.a",
                                            "a-b.c:1",
                                            "a:80-80",
                                            "a:1-65535",
                                            "*",
                                            "*:443",
                                            "*.a",
                                            "*.a.b:8000-9000",
                                            "10.0.0.0/8",
                                            "10.0.0.1",
                                            "10.0.0.1/32:22",
                                            "0.0.0.0/0",
                                            "1a.b2",
                                            "a.b1",
                                            "-a.b",
                                            "*.-a.b"};
        char text[300], place[64];
        struct cloche_err e = {0};

        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                snprintf(text, sizeof(text), "{\"allow\": [\"a\", \"%s\"]}", wrong[i]);
                refuses(text, "network.allow[1]: ");
        }
        for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
                struct policy *policy;

                snprintf(text, sizeof(text), "{\"allow\": [], \"deny\": [\"%s\"]}", right[i]);
                policy = load(text, &e);
                snprintf(place, sizeof(place), "%s", right[i]);
                CHECK(policy, "taken: %s %s", place, policy ? "" : e.msg);
                policy_free(policy);
        }
        refuses("{\"allow\": [\"http://a.b/c\"]}", "a rule has no scheme and no path; expected 'a.b:80'");
        refuses("{\"allow\": [\"https://a.b:8443?d\"]}", "expected 'a.b:8443'");
        refuses("{\"allow\": [\"ws://a.b\"]}", "expected 'a.b'");
        refuses("[]", "expected an object");
        refuses("{\"allow\": \"a\"}", "network.allow: expected an array");
        refuses("{\"deny\": [1]}", "network.deny[0]: expected a string");
        refuses("{\"allow\": [], \"dsn\": true}", "'dsn'");
        refuses("{\"dns\": 1}", "network.dns: expected true or false");
}

static uint32_t address(const char *text)
{
        uint32_t ret = 0;

        CHECK(address_parse(text, strlen(text), &ret) == 0, "%s is an address", text);
        return ret;
}

static void test_names(void)
{
        struct cloche_err e = {0};
        struct policy *policy = load("{\"allow\": [\"Example.COM\", \"*.deep.org:443\", \"*:8080\"], \"deny\": "
                                     "[\"bad.deep.org\", \"*:25\", \"part.org:80\"]}",
                                     &e);

        CHECK(policy_name(policy, "example.com", 80).allowed, "a name in lower case");
        CHECK(!strcmp(policy_name(policy, "example.com", 80).rule, "Example.COM"), "the rule as it was given");
        CHECK(!policy_name(policy, "www.example.com", 80).allowed && !policy_name(policy, "xexample.com", 80).allowed &&
                      !policy_name(policy, "com", 80).allowed,
              "no other name");
        CHECK(policy_name(policy, "a.deep.org", 443).allowed && policy_name(policy, "a.b.deep.org", 443).allowed,
              "names below");
        CHECK(!policy_name(policy, "deep.org", 443).allowed && !policy_name(policy, ".deep.org", 443).allowed,
              "not the name itself");
        CHECK(!policy_name(policy, "a.deep.org", 80).allowed, "on that port only");
        CHECK(policy_name(policy, "anything", 8080).allowed && !policy_name(policy, "anything", 8081).allowed,
              "any name on a port");
        CHECK(!policy_name(policy, "bad.deep.org", 443).allowed && !policy_name(policy, "bad.deep.org", 8080).allowed,
              "deny wins");
        CHECK(!strcmp(policy_name(policy, "bad.deep.org", 443).rule, "bad.deep.org"), "and is named");
        CHECK(!policy_name(policy, "example.com", 25).allowed, "deny of a port");
        CHECK(policy_resolves(policy, "a.deep.org").allowed && policy_resolves(policy, "anything").allowed,
              "allowed on some port");
        CHECK(!policy_resolves(policy, "bad.deep.org").allowed, "denied on all");
        CHECK(policy_resolves(policy, "part.org").allowed, "denied on another");
        policy_free(policy);
        policy = load("{\"allow\": []}", &e);
        CHECK(!policy_resolves(policy, "a").allowed && !policy_name(policy, "a", 80).allowed &&
                      !policy_address(policy, address("8.8.8.8"), 80, 0).allowed,
              "an empty allow allows nothing");
        policy_free(policy);
        policy = load("{\"allow\": [\"a\"], \"dns\": false}", &e);
        CHECK(!policy_resolves(policy, "a").allowed && !policy_resolves(policy, "a").is_curable,
              "no names are answered, whatever is allowed");
        CHECK(policy_name(policy, "b", 80).is_curable && !policy_name(policy, "a", 80).is_curable,
              "a rule could allow the one, and one allows the other");
        policy_free(policy);
        policy = load("{\"deny\": [\"a\", \"b:80\", \"8.8.8.8\"]}", &e);
        CHECK(!strcmp(policy_resolves(policy, "a").rule, "a") && !policy_resolves(policy, "a").is_curable,
              "a rule that denies decides, though none allows");
        CHECK(policy_resolves(policy, "b").is_curable && !policy_name(policy, "b", 80).is_curable &&
                      policy_name(policy, "b", 81).is_curable,
              "on its port");
        CHECK(!policy_address(policy, address("8.8.8.8"), 80, 0).is_curable &&
                      policy_address(policy, address("8.8.4.4"), 80, 0).is_curable,
              "addresses likewise");
        policy_free(policy);
}

static void test_addresses(void)
{
        struct cloche_err e = {0};
        struct policy *policy =
                load("{\"allow\": [\"*\", \"0.0.0.0/0\"], \"deny\": [\"8.8.8.8\", \"9.0.0.0/8:53\"]}", &e);
        static const char *const closed[] = {"10.1.2.3",       "127.0.0.1",       "169.254.169.254", "169.254.1.1",
                                             "172.31.255.255", "192.168.0.1",     "100.127.0.1",     "0.0.0.0",
                                             "224.0.0.1",      "255.255.255.255", "198.18.0.1",      "198.51.100.1",
                                             "203.0.113.9",    "192.0.0.192",     "168.63.129.16",   "100.100.100.200"};

        CHECK(policy_address(policy, address("93.184.216.34"), 80, 0).allowed, "a public address");
        CHECK(!policy_address(policy, address("93.184.216.34"), 80, 1).allowed, "not when it is this machine's");
        CHECK(!policy_address(policy, address("8.8.8.8"), 80, 0).allowed &&
                      !policy_leads(policy, address("8.8.8.8"), 80, 0).allowed,
              "deny wins");
        CHECK(!policy_leads(policy, address("9.9.9.9"), 53, 0).allowed &&
                      policy_leads(policy, address("9.9.9.9"), 80, 0).allowed,
              "on that port");
        for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
                uint32_t a = address(closed[i]);

                CHECK(!policy_address(policy, a, 80, 0).allowed && !policy_leads(policy, a, 80, 0).allowed,
                      "0.0.0.0/0 does not open %s", closed[i]);
        }
        policy_free(policy);
        policy = load("{\"allow\": [\"*\", \"10.0.0.0/8\", \"169.254.0.0/16\", \"127.0.0.0/8:5432\", \"51.0.0.2\", "
                      "\"192.0.0.0/16\"]}",
                      &e);
        CHECK(policy_leads(policy, address("10.1.1.1"), 80, 0).allowed &&
                      policy_address(policy, address("10.1.1.1"), 80, 0).allowed,
              "a range is opened by a rule within");
        CHECK(!policy_leads(policy, address("10.1.1.1"), 80, 1).allowed, "but not this machine's own");
        CHECK(policy_leads(policy, address("127.0.0.1"), 5432, 1).allowed &&
                      !policy_leads(policy, address("127.0.0.1"), 80, 1).allowed,
              "its loopback on a port");
        CHECK(policy_leads(policy, address("51.0.0.2"), 80, 1).allowed, "its own by name");
        CHECK(policy_leads(policy, address("169.254.1.1"), 80, 0).allowed &&
                      !policy_leads(policy, address("169.254.169.254"), 80, 0).allowed,
              "metadata only by itself");
        CHECK(!policy_leads(policy, address("192.168.1.1"), 80, 0).allowed &&
                      !policy_leads(policy, address("192.0.2.1"), 80, 0).allowed,
              "not by a rule that is wider");
        CHECK(policy_leads(policy, address("8.8.8.8"), 80, 0).allowed &&
                      !policy_address(policy, address("8.8.8.8"), 80, 0).allowed,
              "* is about names");
        policy_free(policy);
}

static void test_addresses6(void)
{
        static const struct {
                const char *text;
                int open;
        } rows[] = {{"2606:2800:220:1::1", 1},
                    {"2001:4860:4860::8888", 1},
                    {"::1", 0},
                    {"::", 0},
                    {"fd00:ec2::254", 0},
                    {"fe80::1", 0},
                    {"ff02::1", 0},
                    {"::ffff:8.8.8.8", 0},
                    {"2001:db8::1", 0},
                    {"2001::1", 0},
                    {"2002:a01:101::", 0},
                    {"64:ff9b::808:808", 1},
                    {"64:ff9b::a01:101", 0},
                    {"64:ff9b::a9fe:a9fe", 0},
                    {"4000::1", 0},
                    {"3fff:1000::1", 1},
                    {"3fff:0:1::1", 0}};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct in6_addr a;

                CHECK(inet_pton(AF_INET6, rows[i].text, &a) == 1 && (address6_closed(&a) == NULL) == rows[i].open,
                      "%s is %s", rows[i].text, rows[i].open ? "open" : "closed");
        }
}

int main(void)
{
        test_reading();
        test_services();
        test_names();
        test_addresses();
        test_addresses6();
        return tap_done();
}
