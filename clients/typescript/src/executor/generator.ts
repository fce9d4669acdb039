// Generators used to wrap code and arguments in one text. Here arguments are sent beside the code,
// so a generator returns the code itself.
import type { InferredSignature } from './signature.js'
import type { ArgsMode, SupportedLanguage } from './types.js'

/** Used to mark results in the output. Here the result has a channel of its own, and such text has no meaning. */
export const RESULT_MARKERS = { START: '__SANDBOX_RESULT_START__', END: '__SANDBOX_RESULT_END__' } as const

export interface GenerationOptions {
  code: string
  functionName?: string
  args?: unknown[]
  kwargs?: Record<string, unknown>
  signature?: InferredSignature
  argsMode?: ArgsMode
}

function noWrapper (what: string): never {
  throw new Error(`${what}: arguments are never put into source text here; executor.execute() takes code, functionName, args and kwargs`)
}

export abstract class CodeGenerator {
  abstract readonly language: string
  abstract readonly fileExtension: string

  supportedArgsModes (): ArgsMode[] {
    return ['auto']
  }

  /** The code in the form that runs, by file name. */
  async generateFiles ({ code }: GenerationOptions): Promise<Record<string, string>> {
    return { [`main${this.fileExtension}`]: this.sourceOf(code) }
  }

  /** Standard input is the request's `stdin`; it has no arguments. */
  generateStdin (_options: GenerationOptions): string {
    return ''
  }

  generateExecutionCode (_code: string, _name: string, _args: unknown[], _kwargs: Record<string, unknown>, _signature?: InferredSignature): string {
    return noWrapper('generateExecutionCode')
  }

  protected sourceOf (code: string): string {
    return code
  }
}

class Generator extends CodeGenerator {
  constructor (readonly language: string, readonly fileExtension: string) {
    super()
  }

  protected override sourceOf (code: string): string {
    return this.language === 'php' && !/^\s*<\?(php|=)/.test(code) ? `<?php\n${code}` : code
  }
}

const LANGUAGES: Array<[name: string, extension: string, ...aliases: string[]]> = [
  ['python', '.py'], ['ruby', '.rb'], ['php', '.php'], ['quickjs', '.js', 'js', 'javascript'], ['clang', '.c', 'c'],
  ['clangpp', '.cpp', 'cpp', 'c++'], ['typescript', '.ts', 'ts'], ['bash', '.sh', 'sh'], ['perl', '.pl']
]
const generators = new Map(LANGUAGES.flatMap(([name, extension, ...aliases]) => {
  const generator = new Generator(name, extension)
  return [name, ...aliases].map((alias): [string, CodeGenerator] => [alias, generator])
}))

export function getGenerator (language: SupportedLanguage): CodeGenerator {
  const found = generators.get(language)
  if (found === undefined) throw new Error(`Unsupported language: ${String(language)}`)
  return found
}
