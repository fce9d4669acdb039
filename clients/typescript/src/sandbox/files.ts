import { Commands } from './commands.js'
import { byteStream, contentOf, pieces, write } from './content.js'
import { FileTooLargeError } from './errors.js'
import { readEvents } from './file-stream.js'
import { matches } from './globs.js'
import { entries, infoOf } from './listing.js'
import type { SandboxHandle } from './native.js'
import { abortOf, optionsOf } from './options.js'
import { sseStream } from './sse.js'
import { asText, bytesOf, now, textOf } from './text.js'
import { fail, invalid } from './translate.js'
import { download, upload, type TreeOptions } from './tree.js'
import { versionOf } from './version.js'
import { watchEvents } from './watch.js'
import type {
  Abortable, CheckChangesOptions, CheckChangesResult, CopyFileOptions, DeleteFileOptions, DeleteFileResult, DownloadResult, FileContent, FileExistsResult,
  FileInfo, ListFilesOptions, ListFilesResult, MkdirOptions, MkdirResult, MoveFileResult, RawFileResult, ReadFileOptions, ReadFileResult, RenameFileResult,
  ReplaceOptions, ReplaceResult, SearchOptions, SearchResult, TreeResult, WatchOptions, WriteFileOptions, WriteFileResult
} from './types.js'

const done = (path: string): DeleteFileResult => ({ success: true, exitCode: 0, path, timestamp: now() })

type Looked = { text: string } | { pattern: string }

/** The search term: literal text, or a RegExp's source, interpreted by the daemon's engine (PCRE2). */
function looked (what: string | RegExp, ignoreCase: boolean | undefined): Looked & { ignoreCase: boolean | undefined } {
  if (typeof what === 'string') return { text: what, ignoreCase }
  const strange = what.flags.replace(/[gimsuy]/g, '')
  if (strange !== '') throw invalid(`the flag ${strange} of ${String(what)} is not there in a sandbox; g, i, m, s, u and y are`)
  const inline = [...what.flags].filter((flag) => flag === 'm' || flag === 's').join('')
  return { pattern: inline === '' ? what.source : `(?${inline})${what.source}`, ignoreCase: what.ignoreCase || ignoreCase }
}

/**
 * A session's files: relative paths are relative to its shell's directory, as in commands; for
 * watch, search and checkChanges, to /workspace.
 */
export class Files extends Commands {
  private async at (box: SandboxHandle, path: string): Promise<string> {
    if (this.isStateless || path === '' || path.startsWith('/')) return path
    const { sessions } = await box.session.list({})
    const cwd = sessions.find(({ session }) => session === this.session)?.cwd
    return cwd === undefined ? path : `${cwd === '/' ? '' : cwd}/${path}`
  }

  /** Byte for byte; missing parent directories are created. */
  async writeFile (path: string, content: FileContent, options: WriteFileOptions = {}): Promise<WriteFileResult> {
    const { encoding, mode, append, signal } = optionsOf('writeFile', options)
    const given = contentOf(content, encoding, path)
    const bytes = await this.ask('file.write', { path }, async (box) => await write(box, { path: await this.at(box, path), mode, append }, given, { signal }))
    return { ...done(path), bytes }
  }

  readFile (path: string, options: ReadFileOptions & { encoding: 'none' }): Promise<RawFileResult>
  readFile (path: string, options?: ReadFileOptions): Promise<ReadFileResult>
  /** Text, or base64 if it is no text; `encoding` none: a stream of bytes, of any size. */
  async readFile (path: string, options: ReadFileOptions = {}): Promise<ReadFileResult | RawFileResult> {
    const { encoding, signal } = optionsOf('readFile', options)
    if (!['utf-8', 'utf8', 'base64', 'none', undefined].includes(encoding)) {
      throw invalid(`readFile: encoding is ${JSON.stringify(encoding)}; utf-8, utf8, base64 and none are there`, { path })
    }
    return await this.ask('file.read', { path }, async (box) => {
      if (encoding === 'none') return await this.readRaw(box, await this.at(box, path), { signal })
      const { content, total, mimeType } = await box.file.read({ path: await this.at(box, path) }, { signal })
      const text = encoding === 'base64' ? undefined : encoding === undefined ? asText(content) : textOf(content)
      const about = { isBinary: asText(content) === undefined, mimeType, size: total }
      if (text !== undefined) return { ...done(path), content: text, encoding: 'utf-8', ...about }
      return { ...done(path), content: Buffer.from(bytesOf(content)).toString('base64'), encoding: 'base64', ...about }
    })
  }

  private async readRaw (box: SandboxHandle, path: string, options: Abortable): Promise<RawFileResult> {
    const rest = pieces(box, path, options)
    const { value: first } = await rest.next()
    if (first === undefined) throw fail(FileTooLargeError, 'FILESYSTEM_ERROR', 500, `readFile: ${path} has no first piece`, { path })
    const { mimeType, total: size, content } = first
    return { ...done(path), content: byteStream(first, rest), encoding: 'none', isBinary: asText(content) === undefined, mimeType, size }
  }

  /** Server-sent events of a file of any size: metadata, chunks, complete; `streamFile` and `collectFile` read them. */
  async readFileStream (path: string, options: ReadFileOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { signal, encoding } = optionsOf('readFileStream', options)
    return await this.ask('file.read', { path }, async (box) => {
      const events = await readEvents(box, await this.at(box, path), encoding, { signal })
      return sseStream(events, () => { void events.return() })
    })
  }

  async mkdir (path: string, options: MkdirOptions = {}): Promise<MkdirResult> {
    const { recursive = false, mode, signal } = optionsOf('mkdir', options)
    await this.ask('file.mkdir', { path }, async (box) => await box.file.mkdir({ path: await this.at(box, path), recursive, mode }, { signal }))
    return { ...done(path), recursive, stdout: '', stderr: '' }
  }

  /** Deletes a directory only with `recursive`. */
  async deleteFile (path: string, options: DeleteFileOptions = {}): Promise<DeleteFileResult> {
    const { recursive, force, signal } = optionsOf('deleteFile', options)
    await this.ask('file.remove', { path }, async (box) => await box.file.remove({ path: await this.at(box, path), recursive, force }, { signal }))
    return done(path)
  }

  async renameFile (oldPath: string, newPath: string, options: Abortable = {}): Promise<RenameFileResult> {
    const { signal } = abortOf('renameFile', options)
    const { to } = await this.ask('file.move', { oldPath, newPath }, async (box) => {
      return await box.file.move({ from: await this.at(box, oldPath), to: await this.at(box, newPath) }, { signal })
    })
    return { ...done(oldPath), oldPath, newPath: to }
  }

  async moveFile (sourcePath: string, destinationPath: string, options: Abortable = {}): Promise<MoveFileResult> {
    const { signal } = abortOf('moveFile', options)
    const context = { sourcePath, destinationPath }
    const { to } = await this.ask('file.move', context, async (box) => {
      return await box.file.move({ from: await this.at(box, sourcePath), to: await this.at(box, destinationPath) }, { signal })
    })
    return { ...done(sourcePath), ...context, newPath: to }
  }

  /** Copies directories with their contents. */
  async copyFile (sourcePath: string, destinationPath: string, options: CopyFileOptions = {}): Promise<MoveFileResult> {
    const { signal, overwrite } = optionsOf('copyFile', options)
    const context = { sourcePath, destinationPath }
    const { to } = await this.ask('file.copy', context, async (box) => {
      return await box.file.copy({ from: await this.at(box, sourcePath), to: await this.at(box, destinationPath), overwrite }, { signal })
    })
    return { ...done(sourcePath), ...context, newPath: to }
  }

  async listFiles (path: string, options: ListFilesOptions = {}): Promise<ListFilesResult> {
    const { recursive = false, includeHidden = false, signal } = optionsOf('listFiles', options)
    return await this.ask('file.list', { path }, async (box) => {
      const files: FileInfo[] = []
      for await (const entry of entries(box, await this.at(box, path), { recursive, hidden: includeHidden }, { signal })) files.push(infoOf(entry))
      return { ...done(path), files, count: files.length }
    })
  }

  async exists (path: string, options: Abortable = {}): Promise<FileExistsResult> {
    const { signal } = abortOf('exists', options)
    const { exists } = await this.ask('file.exists', { path }, async (box) => await box.file.exists({ path: await this.at(box, path) }, { signal }))
    return { success: true, path, exists, timestamp: now() }
  }

  async stat (path: string, options: Abortable = {}): Promise<FileInfo> {
    const { signal } = abortOf('stat', options)
    return await this.ask('file.stat', { path }, async (box) => infoOf(await box.file.stat({ path: await this.at(box, path) }, { signal })))
  }

  /** Server-sent events of changes; the watch is active when this resolves. */
  async watch (path: string, options: WatchOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { recursive, include, exclude, signal } = optionsOf('watch', options)
    return await this.ask('file.watch', { path }, async (box) => {
      const asking = box.file.watch({ path, recursive, include, exclude }, { signal })
      const events = await watchEvents(path, asking, signal)
      return sseStream(events, () => { asking.cancel() })
    })
  }

  /** True if anything at or below a path has changed since that `version` was returned. */
  async checkChanges (path: string, options: CheckChangesOptions = {}): Promise<CheckChangesResult> {
    const { since, recursive = true, include, exclude, signal } = optionsOf('checkChanges', options)
    return await this.ask('file.list', { path }, async (box) => {
      const version = await versionOf(box, path, recursive, matches(include, exclude), { signal })
      return { success: true, status: since === undefined || since === version ? 'unchanged' : 'changed', version, path, timestamp: now() }
    })
  }

  /** Lines of files below a path that contain this. */
  async search (path: string, what: string | RegExp, options: SearchOptions = {}): Promise<SearchResult> {
    const { include, exclude, ignoreCase, limit, signal } = optionsOf('search', options)
    const params = { path, ...looked(what, ignoreCase), include, exclude, limit }
    const found = await this.ask('file.search', { path }, async (box) => await box.file.search(params, { signal }))
    return { ...found, matches: found.matches.map((match) => ({ ...match, path: textOf(match.path), text: textOf(match.text) })) }
  }

  /** Replaces it in files; for a RegExp the replacement may contain $1, ${name}. */
  async replace (path: string, what: string | RegExp, replacement: string, options: ReplaceOptions = {}): Promise<ReplaceResult> {
    const { include, exclude, ignoreCase, dryRun, signal } = optionsOf('replace', options)
    const params = { path, ...looked(what, ignoreCase), replacement, include, exclude, dryRun }
    const { files, count } = await this.ask('file.replace', { path }, async (box) => await box.file.replace(params, { signal }))
    return { files: files.map((file) => ({ path: textOf(file.path), count: file.count })), count }
  }

  /** Uploads a directory or file of the host, with links and modes, into a directory of the sandbox. */
  async uploadTree (local: string, path: string, options: TreeOptions = {}): Promise<TreeResult> {
    const known = optionsOf('uploadTree', options)
    return await this.ask('archive.extract', { local, path }, async (box) => await upload(box, local, path, known))
  }

  /** Downloads a tree of the sandbox into a new or empty directory of the host. */
  async downloadTree (path: string, local: string, options: TreeOptions = {}): Promise<DownloadResult> {
    const known = optionsOf('downloadTree', options)
    return await this.ask('file.list', { local, path }, async (box) => await download(box, path, local, known))
  }
}
