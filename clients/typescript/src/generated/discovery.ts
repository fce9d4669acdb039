// Written by tools/spec from spec/discovery-places.def and discovery-faults.def: change that.
/** The last directories in which cloched is looked for. */
export const installed = ['/usr/local/sbin', '/usr/sbin', '/usr/local/libexec/cloche', '/usr/libexec/cloche']

/** Errors of the search for a daemon. */
export const faults = {
  EMPTY: 'the path of the daemon\'s socket is empty: expected a path',
  LONG: 'the path of the daemon\'s socket has %s bytes, at most 107 are possible: use a shorter one',
  NONE: 'no daemon answers at \'%s\': %s (start one: cloched --socket PATH; or name none: one is started)',
  CLOSED: 'this user may not connect to the daemon at \'%s\': %s (cloched --allow-uid permits it)',
  NAMED: '%s names \'%s\', which is no program',
  MISSING: 'there is no cloched beside this program, in $PATH or sbin beside it, or in %s: install Cloche, or name the program by $CLOCHE_DAEMON or a daemon that runs by $CLOCHE_SOCKET'
}
