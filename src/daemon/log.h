/* The log: one JSON object a line on standard error. Never bytes of a guest or of a caller as they are. */
#ifndef CLOCHE_DAEMON_LOG_H
#define CLOCHE_DAEMON_LOG_H

enum level { LEVEL_ERROR, LEVEL_WARNING, LEVEL_INFO, LEVEL_DEBUG };

/* "error", "warning", "info", "debug"; -1 for another word. */
int level_find(const char *name);
void log_set_level(enum level level);
int log_has_level(enum level level);

/* format: of json_pack (jansson), an object with what else there is to say, or NULL. */
void log_event(enum level level, const char *event, const char *format, ...);

#endif
