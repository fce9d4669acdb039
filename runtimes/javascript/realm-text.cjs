// Text and bytes, a function of `host` (the kit) run in the guest's realm.
'use strict'
const { bytesOf, isObject, provide, stringOf, utf8 } = host
const { Boolean, RangeError, TypeError, Uint8Array } = globalThis

class TextEncoder {
  get encoding () { return 'utf-8' }

  encode (input = '') { return utf8(stringOf(input)) }

  encodeInto (source, destination) {
    if (!isObject(destination) || host.typedName(destination) !== 'Uint8Array') throw new TypeError('encodeInto: a Uint8Array is needed')
    const written = host.encodeInto(stringOf(source), destination)
    return { read: host.encodeRead(), written }
  }
}

class TextDecoder {
  #handle
  #fatal
  #ignoreBOM

  constructor (label = 'utf-8', options = undefined) {
    this.#fatal = Boolean(options?.fatal)
    this.#ignoreBOM = Boolean(options?.ignoreBOM)
    this.#handle = host.decoder(stringOf(label), this.#fatal, this.#ignoreBOM)
    if (this.#handle === undefined) throw new RangeError(`the encoding "${stringOf(label)}" is not known`)
  }

  get encoding () { return host.encodingOf(this.#handle) }
  get fatal () { return this.#fatal }
  get ignoreBOM () { return this.#ignoreBOM }

  decode (input = undefined, options = undefined) {
    const bytes = input === undefined ? new Uint8Array(0) : bytesOf(input)
    if (bytes === undefined) throw new TypeError('decode: an ArrayBuffer or a view of one is needed')
    const text = host.decode(this.#handle, bytes, Boolean(options?.stream))
    if (text === undefined) throw new TypeError(`the data is not valid ${this.encoding}`)
    return text
  }
}

function invalid (name, message) {
  return new host.DOMException(`${name}: ${message}`, 'InvalidCharacterError')
}

function atob (data) {
  const text = host.base64Decode(stringOf(data))
  if (text === undefined) throw invalid('atob', 'the text is not base64')
  return text
}

function btoa (data) {
  const text = host.base64Encode(stringOf(data))
  if (text === undefined) throw invalid('btoa', 'the text has characters beyond one byte')
  return text
}

provide('TextEncoder', TextEncoder)
provide('TextDecoder', TextDecoder)
provide('atob', atob)
provide('btoa', btoa)
return {}
