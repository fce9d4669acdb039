/* The refused connections among decisions: each once, with a count. Pure. */
#ifndef CLOCHE_ENGINE_BOX_DENIALS_H
#define CLOCHE_ENGINE_BOX_DENIALS_H

#include <jansson.h>
#include <stdint.h>

#define DENIALS_MAX 100 /* rows; repeated denials are counted */

/* True if a decision (network.h) is a denial. */
int denials_is_one(const json_t *decision);
/* Add a decision (network.h) to rows, an array of RefusedConnection (spec/answers.def), if it is a
 * denial. Return the number of denials for which there was no room. */
uint64_t denials_add(json_t *rows, const json_t *decision);
/* Set "allow" of each row that more rules in allow would permit: these rules, a preset where one
 * has the rule. Other rows, such as those that a rule of deny refuses, have none. names: of the
 * engine (network-names.h). */
void denials_set_rules(json_t *rows, json_t *names, const json_t *policy);

#endif
