import { createBackup, restoreBackup } from './backup.js'
import { Files } from './files.js'
import { type Execution, Interpreter } from './interpreter.js'
import { abortOf, optionsOf } from './options.js'
import { Terminal } from './terminal.js'
import { now, textOf, unsetting } from './text.js'
import type {
  Abortable, BackupOptions, CodeContext, CreateContextOptions, DirectoryBackup, Environment, GitCheckoutOptions, GitCheckoutResult, RestoreBackupResult, RunCodeOptions, TerminalOptions
} from './types.js'

/** A session of a sandbox: its shell keeps directory, variables and functions; files and processes are the sandbox's. */
export class ExecutionSession extends Files {
  private readonly interpreter = new Interpreter(this.box, () => this.environment())

  /** Its name. */
  get id (): string {
    return this.session
  }

  /** Exports variables into the session's shell; null or undefined unsets. */
  async setEnvVars (env: Environment, options: Abortable = {}): Promise<void> {
    await this.ask('session.env', {}, async (box) => await box.session.env({ session: this.session, env: unsetting(env) }, options))
  }

  /** Clones a repository, in the sandbox and through its network. */
  async gitCheckout (url: string, options: GitCheckoutOptions = {}): Promise<GitCheckoutResult> {
    const { branch, targetDir, depth, cloneTimeoutMs, username, password, sessionId = this.session, signal } = optionsOf('gitCheckout', options)
    const params = { url, branch, dir: targetDir, depth, username, password, session: sessionId, timeoutMs: cloneTimeoutMs }
    const named = { ...branch === undefined ? {} : { branch }, ...targetDir === undefined ? {} : { targetDir } }
    const context = { repository: withoutCredentials(url), ...named }
    const done = await this.ask('git.checkout', context, async (box) => await box.git.checkout(params, { signal }))
    return {
      success: true,
      exitCode: 0,
      stdout: textOf(done.stdout),
      stderr: textOf(done.stderr ?? ''),
      repoUrl: done.url,
      branch: done.branch as string, // absent for a tag, as the commit is for an empty repository
      targetDir: targetDir ?? done.dir as string,
      commit: done.commit as string,
      timestamp: now()
    }
  }

  // -- backups

  /**
   * Packs a directory and keeps the archive outside of the sandbox: it can be restored into this
   * one or another, until its `ttl` is over.
   */
  async createBackup (options: BackupOptions & Abortable): Promise<DirectoryBackup> {
    return await createBackup(this.ask, this.box.place.backups, optionsOf('createBackup', options))
  }

  /** Restores the directory of a backup; all other contents of it are deleted. */
  async restoreBackup (backup: DirectoryBackup, options: Abortable = {}): Promise<RestoreBackupResult> {
    return await restoreBackup(this.ask, this.box.place.backups, backup, abortOf('restoreBackup', options))
  }

  // -- the code interpreter, which is the sandbox's whatever the session

  /** The variables of contexts created from now on. */
  protected environment (): Environment {
    return {}
  }

  /** A persistent interpreter: each piece of code sees the definitions of earlier ones. */
  async createCodeContext (options: CreateContextOptions = {}): Promise<CodeContext> {
    return await this.interpreter.create(optionsOf('createCodeContext', options))
  }

  /**
   * Runs code in a context, after the earlier code; an error of the code is in the result. A
   * timeout and the signal interrupt it.
   */
  async runCode (code: string, options: RunCodeOptions = {}): Promise<Execution> {
    return await this.interpreter.run(code, optionsOf('runCode', options))
  }

  /** The same as server-sent events: stdout, stderr, result, then execution_complete or error. */
  async runCodeStream (code: string, options: RunCodeOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return await this.interpreter.stream(code, optionsOf('runCodeStream', options))
  }

  async listCodeContexts (options: Abortable = {}): Promise<CodeContext[]> {
    return await this.interpreter.list(options)
  }

  async deleteCodeContext (contextId: string, options: Abortable = {}): Promise<void> {
    await this.interpreter.delete(contextId, options)
  }

  /** The session's terminal, created if missing: bytes both ways. Viewers share it. */
  async terminal (options: TerminalOptions = {}): Promise<Terminal> {
    const { sessionId = this.session, ...rest } = optionsOf('terminal', options)
    return await Terminal.open(this.ask, sessionId, rest)
  }
}

const withoutCredentials = (url: string): string => url.replace(/^([a-z]+:\/\/)[^/@]*@/i, '$1')
