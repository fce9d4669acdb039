/* Unix sockets whose other end belongs to a guest or a caller. The peer can send descriptors (unix(7), SCM_RIGHTS); to receive such a message, or to close a socket with one
 * in it, closes them, and the last close of a TCP socket blocks as long as its owner wishes (socket(7), SO_LINGER), unless the process or thread ends (net/ipv4/af_inet.c,
 * inet_release). These functions never block there. */
#ifndef CLOCHE_BASE_PEER_H
#define CLOCHE_BASE_PEER_H

#include <stddef.h>
#include <sys/types.h>

/* First of all, of a stream: what its peer sends out of band (MSG_OOB) is read in order among the rest, and so are descriptors that come with it. */
void peer_open(int stream_fd);

/* recv(2) without waiting, of a stream or of a packet that brings no descriptors. When some came along, they stay in the socket: EBADMSG. */
ssize_t peer_receive(int socket_fd, void *data, size_t size);

/* One packet, and the first descriptor that came with it when it is of this type (st_mode, S_IFMT; 0: none): *ret_fd, or -EBADF. All others are discarded.
 * Returns its size, 0 at end of file, or -errno: -EMSGSIZE for a packet that was cut, -EMFILE for one that is whole, but with descriptors that could not be opened.
 * flags: as of recvmsg(2). */
ssize_t peer_receive_with(int socket_fd, void *data, size_t size, mode_t type, int *ret_fd, int flags);

/* Close it without waiting for what lies unread in it. Nothing more can be sent to it, also by who holds a copy. Ignores -EBADF; sets *fd to that. */
void peer_close(int *fd);

/* Likewise of a copy of a stream's, when whoever holds the socket itself calls peer_close: until then it is read and written as before. */
void peer_close_copy(int *fd);

/* For a socket that others close soon, a library say: a copy, for peer_close after that, when something lies unread in it; else -EBADF.
 * Nothing more can be sent to it. */
int peer_copy_unread(int socket_fd);

/* Close descriptors that came from a peer, without waiting for them. When no thread can be started they are closed by a later call; a call without descriptors
 * does only that. */
void peer_discard(const int *fds, size_t count);

/* Likewise of one; sets *fd to -EBADF. Ignores a negative one. */
void peer_discard_one(int *fd);

#endif
