/* The options about packages and networks: where tools in sandboxes install from, and the names
 * that hosts and ports have in network policies. */
#ifndef CLOCHE_DAEMON_CORE_PACKAGES_H
#define CLOCHE_DAEMON_CORE_PACKAGES_H

#include "options.h"

#include <jansson.h>

/* For KIND=URL and URL. NULL: it is valid; else the text that the option expects. */
const char *packages_check_index(const struct daemon_options *o, const char *value);
const char *packages_check_proxy(const char *value);

/* The variables of all programs in sandboxes, an object of text; NULL: no memory. */
json_t *packages_env(const struct daemon_options *o);
/* The part of it that runs with a network have: gem reads a file, which only
 * sandboxes have. New, or NULL. */
json_t *packages_env_of_runs(const json_t *env);
/* The configuration file of gem, whose path is in packages_env(); *ret is NULL without
 * a need for one. -ENOMEM. */
int packages_gemrc(const struct daemon_options *o, char **ret);

/* For NAME=RULE,…. As packages_check_index(). */
const char *packages_check_preset(const char *value);
/* For NAME=PORT. */
const char *packages_check_port(const struct daemon_options *o, const char *value);
/* The names that network policies may use (engine/box/network-names.h); NULL: no memory. */
json_t *packages_network_names(const struct daemon_options *o);

#endif
