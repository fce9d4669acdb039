/* Sandboxes as the API describes them. described: as sandbox.get returns it. */
#ifndef CLOCHE_DAEMON_E2B_SANDBOX_H
#define CLOCHE_DAEMON_E2B_SANDBOX_H

#include "internal.h"

int e2b_is_running(const json_t *described);
int e2b_has_root(const json_t *described); /* its programs begin as root (decision 0043) */
/* A new reference each, NULL without memory. */
json_t *e2b_describe_access(const struct e2b_request *q, const json_t *described); /* Sandbox */
json_t *e2b_describe(const struct e2b_request *q, const json_t *described);        /* ListedSandbox */
json_t *e2b_describe_in_detail(const struct e2b_request *q, const json_t *described);

/* The settings of a template that was built, from the labels of a snapshot or a sandbox: {env, cwd,
 * user, start, ready, limits}; an empty object if there are none. */
json_t *e2b_settings(const json_t *described);
#define E2B_LABEL_FILES E2B_LABEL "files"       /* an object as text: {path: {key: value}} */
#define E2B_LABEL_SETTINGS E2B_LABEL "settings" /* of the snapshot, as text: {env, cwd, user, start, ready, limits} */

/* -- labels and metadata of files -------------------------------------------------------------------------------- */

/* Change the labels of the sandbox, one request at a time; q->described is the sandbox after
 * that. */
void e2b_labels_change(struct e2b_request *q, e2b_change change, e2b_then then);
void e2b_labels_release(struct e2b_request *q);                 /* at the end of a request */
json_t *e2b_metadata(const json_t *described);                  /* of all its files, by path; a new reference */
int e2b_has_metadata(const json_t *described, const char *dir); /* that file has, or one below it */
/* The metadata after a move of a file or directory; to: NULL: after its removal. A new
 * reference. */
json_t *e2b_metadata_move(const json_t *described, const char *from, const char *to);
/* Parameters of sandbox.update, as an e2b_change returns them. all: stolen. */
json_t *e2b_metadata_put(struct e2b_request *q, const json_t *described, json_t *all);
/* The metadata that the headers of an upload state; NULL: the request was refused. */
json_t *e2b_metadata_of_headers(struct e2b_request *q);

/* -- contents of volumes ----------------------------------------------------------------------------------------- */

#define E2B_VOLUME_PATH "/volumecontent/{id}/"

/* True if the request has the token of the volume that its path names. */
int e2b_is_volume_request(const struct daemon *d, const struct http_request *request);
int e2b_is_of_volume(const struct e2b_request *q);
/* Continue with the sandbox of the volume; else the request is refused. */
void e2b_with_volume(struct e2b_request *q, void (*then)(struct e2b_request *q));
/* Keep that sandbox for the transfer of so many bytes, and a while. */
void e2b_volume_renew(struct e2b_request *q, json_int_t size_bytes, e2b_then then);
json_t *e2b_volume_path(const char *path);         /* in that sandbox; a new reference */
void e2b_volume_entry(struct e2b_request *q);      /* answer with the entry of the path */
json_int_t e2b_volume_mode(struct e2b_request *q); /* -1: not stated; -2: the request was refused */
int e2b_volume_flag(const struct e2b_request *q, const char *name);

/* The network of a sandbox whose creator states none. */
json_t *e2b_network(const struct daemon *d);
/* The policy of the core for what a request states, a new reference. NULL, with *ret_refused:
 * the request was refused. */
json_t *e2b_policy_of(struct e2b_request *q, const json_t *network, int has_internet, int *ret_refused);
/* A copy without the values of headers that are no placeholders. */
json_t *e2b_network_shown(const json_t *network);
/* The variables that the programs of all sandboxes have; a new reference. */
json_t *e2b_user_env(void);
int e2b_is_own_image(const char *template);

#define E2B_ID_SIZE 21
#define E2B_TIMEOUT_S 300 /* as the clients document it */

/* The timeout of the body in seconds; without: of a request that says nothing. Negative:
 * the request was refused. */
json_int_t e2b_timeout_of(struct e2b_request *q, json_int_t without);
json_t *e2b_lifetime(json_int_t timeout_s);
/* Continue with the sandbox of the path, as sandbox.get returns it; else answer 404. */
void e2b_find(struct e2b_request *q, e2b_then then);

#endif
