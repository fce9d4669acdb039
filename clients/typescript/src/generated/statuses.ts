// Written by tools/spec from spec/statuses.def: change that.
/**
 * How a run can end.
 * - `success`: The function returned, or the script exited with 0.
 * - `error`: The function threw; error.type is the language's own class name.
 * - `crash`: The interpreter died: signal, abort, out of memory.
 * - `timeout`: The wall or the processor limit was reached.
 * - `terminated`: The caller cancelled.
 */
export type Status = 'success' | 'error' | 'crash' | 'timeout' | 'terminated'
export const exitCodes: Record<Status, number> = { success: 0, error: 1, crash: 1, timeout: 124, terminated: 143 }
