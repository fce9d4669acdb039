// Written by tools/spec from spec/limits.def: change that.
/** Limits of a run. An absent limit has its default; 0: no limit. */
export interface Limits {
  /** Time from start to result; breach: timeout. In ms; by default 30,000. */
  wallMs?: number
  /** Processor time of all processes of the run together; breach: timeout. In ms; by default 30,000. */
  cpuMs?: number
  /** All memory of the box: anonymous, page cache, tmpfs, kernel; breach: crash. In bytes; by default 536,870,912. */
  memoryBytes?: number
  /** Processes and threads at one time; breach: fork fails with EAGAIN. In tasks; by default 128. */
  pids?: number
  /** Share of the processors; breach: throttled. In percent of one core; by default 200. */
  cpuPercent?: number
  /** Files written in the box, all together; breach: ENOSPC. In bytes; by default 268,435,456. */
  diskBytes?: number
  /** Files and directories in the box; breach: ENOSPC. In files; by default 65,536. */
  diskInodes?: number
  /** Size of one file; breach: EFBIG. In bytes; by default 268,435,456. */
  fileBytes?: number
  /** Descriptors of one process; breach: EMFILE. In descriptors; by default 1,024. */
  openFiles?: number
  /** Kept of stdout and of stderr each: head and tail; what is over is counted and dropped. In bytes; by default 1,048,576. */
  outputBytes?: number
  /** The encoded result; breach: error. In bytes; by default 67,108,864. */
  resultBytes?: number
  /** Calls of host functions in one run; breach: the run ends with an error, whatever its code does. In calls; by default 1,000. */
  bridgeCalls?: number
  /** Arguments of one call of a host function; breach: as above. In bytes; by default 16,777,216. */
  bridgeBytes?: number
}
export type LimitName = keyof Limits

export const limitTable: Record<LimitName, { unit: string, default: number, min: number, max: number }> = {
  wallMs: { unit: 'ms', default: 30000, min: 1, max: 86400000 },
  cpuMs: { unit: 'ms', default: 30000, min: 1, max: 86400000 },
  memoryBytes: { unit: 'bytes', default: 536870912, min: 8388608, max: 1099511627776 },
  pids: { unit: 'tasks', default: 128, min: 8, max: 32768 },
  cpuPercent: { unit: 'percent of one core', default: 200, min: 1, max: 100000 },
  diskBytes: { unit: 'bytes', default: 268435456, min: 65536, max: 1099511627776 },
  diskInodes: { unit: 'files', default: 65536, min: 64, max: 100000000 },
  fileBytes: { unit: 'bytes', default: 268435456, min: 4096, max: 1099511627776 },
  openFiles: { unit: 'descriptors', default: 1024, min: 16, max: 1048576 },
  outputBytes: { unit: 'bytes', default: 1048576, min: 1, max: 1073741824 },
  resultBytes: { unit: 'bytes', default: 67108864, min: 1, max: 1073741824 },
  bridgeCalls: { unit: 'calls', default: 1000, min: 1, max: 1000000000 },
  bridgeBytes: { unit: 'bytes', default: 16777216, min: 1, max: 1073741824 }
}
