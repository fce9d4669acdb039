// Writes tar archives (POSIX pax), the format for uploads of trees.

const BLOCK = 512
const NAME_BYTES = 100
const SIZE_MAX = 0o77777777777

export interface Member {
  /** Relative, with slashes. */
  path: string
  type: 'file' | 'directory' | 'symlink'
  mode: number
  mtimeMs: number
  size: number
  target?: string
}

const flags = { file: '0', directory: '5', symlink: '2', pax: 'x' }

function header (name: Uint8Array, flag: string, { mode, mtimeMs, size }: Pick<Member, 'mode' | 'mtimeMs' | 'size'>, target: Uint8Array): Buffer {
  const block = Buffer.alloc(BLOCK)
  const octal = (value: number, at: number, length: number): void => { block.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1') }
  block.set(name.subarray(0, NAME_BYTES), 0)
  octal(mode & 0o7777, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(Math.min(size, SIZE_MAX), 124, 12)
  octal(Math.max(0, Math.floor(mtimeMs / 1000)), 136, 12)
  block.fill(' ', 148, 156)
  block.write(flag, 156, 'latin1')
  block.set(target.subarray(0, NAME_BYTES), 157)
  block.write('ustar\u000000', 257, 'latin1')
  octal(block.reduce((sum, byte) => sum + byte, 0), 148, 7)
  return block
}

const padding = (size: number): Uint8Array => new Uint8Array((BLOCK - size % BLOCK) % BLOCK)

/** `LENGTH key=value\n`, where the length counts its own digits. */
function record (key: string, value: string): Buffer {
  const bare = Buffer.byteLength(` ${key}=${value}\n`)
  let length = bare + String(bare).length
  if (bare + String(length).length !== length) length++
  return Buffer.from(`${length} ${key}=${value}\n`)
}

// eslint-disable-next-line no-control-regex
const fits = (bytes: Uint8Array, text: string): boolean => bytes.length <= NAME_BYTES && /^[\x20-\x7e]*$/.test(text)

/** The header blocks of a member. */
export function memberHead (member: Member): Uint8Array {
  const path = member.type === 'directory' ? `${member.path}/` : member.path
  const target = member.target ?? ''
  const [name, link] = [Buffer.from(path), Buffer.from(target)]
  const records = [
    ...fits(name, path) ? [] : [record('path', path)],
    ...fits(link, target) ? [] : [record('linkpath', target)],
    ...member.size <= SIZE_MAX ? [] : [record('size', String(member.size))]
  ]
  const own = header(name, flags[member.type], member, link)
  if (records.length === 0) return own
  const pax = Buffer.concat(records)
  const paxHead = header(Buffer.from('pax'), flags.pax, { mode: 0o644, mtimeMs: member.mtimeMs, size: pax.length }, new Uint8Array())
  return Buffer.concat([paxHead, pax, padding(pax.length), own])
}

export const memberTail = padding
export const archiveEnd = (): Uint8Array => new Uint8Array(2 * BLOCK)
