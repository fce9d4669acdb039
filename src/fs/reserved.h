/* The one name at a mount's root that is not the guest's: cloche-sync keeps its journal there, beside what it writes. The guest never
 * sees it, finds it or makes it, and no denial is recorded: there is nothing to be told of. */
#ifndef CLOCHE_FS_RESERVED_H
#define CLOCHE_FS_RESERVED_H

#define RESERVED_NAME ".cloche-sync"

#endif
