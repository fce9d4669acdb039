/* Messages to the service manager, if it requested them (sd_notify(3)). */
#ifndef CLOCHE_DAEMON_START_NOTIFY_H
#define CLOCHE_DAEMON_START_NOTIFY_H

/* Save the address, and hide it from processes that are started later. */
void notify_prepare(void);
void notify(const char *state);

#endif
