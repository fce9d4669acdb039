/* Options from the command line and the environment. */
#ifndef CLOCHE_DAEMON_CORE_OPTIONS_H
#define CLOCHE_DAEMON_CORE_OPTIONS_H

#include "log.h"
#include "user/token.h"

#include <cloche/engine.h>
#include <stdint.h>
#include <sys/types.h>

#define OPTIONS_LIST_MAX 64

enum image_changes {
        IMAGE_CHANGES_NONE,
        IMAGE_CHANGES_OWNER, /* by root and the user who started the daemon */
        IMAGE_CHANGES_ALL,   /* others add images, and neither replace nor remove them */
};

struct option_list {
        const char *names[OPTIONS_LIST_MAX];
        unsigned count;
};

struct daemon_options {
        struct cloche_engine_options engine;
        const char *socket_path, *listen, *token_file, *tls_certificate_file, *tls_key_file;
        int connect_fd; /* of a private daemon; -1: none */
        int has_state;  /* sandboxes are saved; in a restarted engine at first: the engine before saved them */
        int link_fd;    /* to the supervisor that started this process; -1: none */
        struct {
                long ids[OPTIONS_LIST_MAX];
                unsigned count;
        } uids, gids;
        struct option_list hosts, origins, package_indexes, network_presets,
                host_ports;                        /* KIND=URL, NAME=RULE,…, NAME=PORT */
        const char *mount_roots[OPTIONS_LIST_MAX]; /* for engine, like mount_root_uids */
        int64_t mount_root_uids[OPTIONS_LIST_MAX];
        const char *state_dir;    /* NULL: the default; "": none */
        const char *preview_host; /* HOST or HOST:PORT */
        struct container_listen {
                const char *address; /* HOST:PORT=SANDBOX */
                size_t size;         /* of HOST:PORT */
        } containers[OPTIONS_LIST_MAX];
        unsigned container_count;
        struct option_list e2b_listen; /* HOST:PORT */
        struct option_list
                container_images;  /* that sandboxes of the container API may have; the first is the default */
        const char *contexts;      /* languages, with commas; NULL: option absent; "": none */
        const char *network;       /* rules, with commas; NULL: none */
        const char *package_proxy; /* URL; NULL: none */
        enum image_changes image_changes;
        int has_layers_on_disk;
        unsigned long save_every_ms, sandboxes_max, saved_max, volumes_max, volume_bytes_max;
        unsigned long grace_ms, connections_max, body_bytes_max, auth_ms, image_bytes_max;
        unsigned long exit_when_idle_ms; /* 0: never */
        unsigned long hang_ms;           /* 0: never */
        int is_state_temporary;          /* state_dir is emptied at the end, and nothing is saved then */
        int is_mcp;                      /* POST /mcp is served */
        int is_mcp_ask;                  /* create_sandbox with a network asks the user */
        int is_conformance;              /* with the fixtures of MCP's conformance tests */
        int is_jupyter;                  /* /jupyter is served */
        int is_on_demand, is_plain;      /* is_plain: without options but --profile */
        struct {
                char *socket_path; /* owned; NULL: not a daemon on demand */
                int ready_fd, lock_fd;
        } on_demand;
        enum level level;
        char token[TOKEN_BYTES_MAX]; /* read before privileges are dropped */
        char *tls_certificate, *tls_key;
};

/* Read the options. 0: continue. 1: exit with *ret_code; the messages are printed. */
int options_read(int argc, char **argv, struct daemon_options *ret, int *ret_code);

#endif
