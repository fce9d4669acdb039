/* The log: one JSON object per line on standard error. Bytes of guests and callers are escaped. */
#ifndef CLOCHE_DAEMON_CORE_LOG_H
#define CLOCHE_DAEMON_CORE_LOG_H

enum level { LEVEL_ERROR, LEVEL_WARNING, LEVEL_INFO, LEVEL_DEBUG };

/* Find "error", "warning", "info" or "debug"; -1 if it is none of them. */
int level_find(const char *name);
void log_set_level(enum level level);
int log_has_level(enum level level);

/* format: of json_pack (jansson), for an object with further members, or NULL. */
void log_event(enum level level, const char *event, const char *format, ...);

#endif
