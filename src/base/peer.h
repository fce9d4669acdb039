/* Unix sockets whose other end belongs to a guest or a caller. The peer can send descriptors
 * (unix(7), SCM_RIGHTS). Receiving such a message, or closing a socket with one in it, closes
 * them. The last close of a TCP socket blocks as long as its owner chooses (socket(7),
 * SO_LINGER), unless the process or thread exits (net/ipv4/af_inet.c, inet_release). These
 * functions never block there. */
#ifndef CLOCHE_BASE_PEER_H
#define CLOCHE_BASE_PEER_H

#include <stddef.h>
#include <sys/types.h>

/* Call it first on a stream: data that its peer sends out of band (MSG_OOB), and descriptors with
 * it, are then read in order with the rest. */
void peer_open(int stream_fd);

/* recv(2) without waiting, from a stream or of a packet without descriptors. A message with
 * descriptors stays in the socket: EBADMSG. */
ssize_t peer_receive(int socket_fd, void *data, size_t size);

/* Receive one packet, and its first descriptor if that is of this type (st_mode, S_IFMT; 0: none):
 * *ret_fd, or -EBADF. All others are discarded. Returns its size, 0 at end of file, or -errno:
 * -EMSGSIZE for a packet that was cut, -EMFILE for a whole one whose descriptors could not be
 * opened. flags: as for recvmsg(2). */
ssize_t peer_receive_with(int socket_fd, void *data, size_t size, mode_t type, int *ret_fd, int flags);

/* Close it without blocking on unread messages. No more can be sent to it, even if other processes
 * hold a copy. Ignores -EBADF; sets *fd to that. */
void peer_close(int *fd);

/* Likewise for a copy of a stream, whose owner calls peer_close on the socket itself: until then it
 * is read and written as before. */
void peer_close_copy(int *fd);

/* For a socket that other code, such as a library, closes soon: return a copy for peer_close after
 * that, if it has unread messages; else -EBADF. No more can be sent to it. */
int peer_copy_unread(int socket_fd);

/* Close descriptors from a peer, without blocking. If no thread can be started, a later call closes
 * them; a call without descriptors does only that. */
void peer_discard(const int *fds, size_t count);

/* Likewise for one; sets *fd to -EBADF. Ignores a negative one. */
void peer_discard_one(int *fd);

#endif
