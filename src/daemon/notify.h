/* Telling systemd, if it asked to be told (sd_notify(3)). */
#ifndef CLOCHE_DAEMON_NOTIFY_H
#define CLOCHE_DAEMON_NOTIFY_H

/* Remember whom to tell, and hide it from what is started from now on. */
void notify_prepare(void);
void notify(const char *state);

#endif
