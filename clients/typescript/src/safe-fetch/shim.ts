/**
 * Runs in the guest's realm on the handler's result. The realm may have nothing but ECMAScript,
 * hence a decoder of UTF-8 of its own, by the Encoding standard; TextDecoder where there is one. A
 * text and not a function, so that no bundler rewrites it.
 */
export const SHIM = String.raw`function ({ status, statusText, headers, body }) {
  const isBytes = ArrayBuffer.isView(body)

  // The range of the second byte, by the first: overlong forms, surrogates and what is above U+10FFFF end here.
  const lowest = (first) => first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80
  const highest = (first) => first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf
  const following = (first) => first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3

  function decode (bytes) {
    const parts = []
    let units = []
    for (let i = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0; i < bytes.length;) {
      const first = bytes[i++]
      let point = first
      if (first >= 0x80) {
        const count = following(first)
        let taken = 0
        point = first & 0x3f >> count
        for (; taken < count && i < bytes.length; taken++, i++) {
          const byte = bytes[i]
          if (byte < (taken === 0 ? lowest(first) : 0x80) || byte > (taken === 0 ? highest(first) : 0xbf)) break
          point = point << 6 | byte & 0x3f
        }
        if (count === 0 || taken < count) point = 0xfffd
      }
      if (point > 0xffff) units.push(0xd800 + (point - 0x10000 >> 10), 0xdc00 + (point & 0x3ff))
      else units.push(point)
      if (units.length > 8000) {
        parts.push(String.fromCharCode(...units))
        units = []
      }
    }
    parts.push(String.fromCharCode(...units))
    return parts.join('')
  }

  const bytes = () => {
    if (isBytes) return new Uint8Array(body)
    if (body === null) return new Uint8Array(0)
    throw new TypeError('the body of this response is a value, not bytes')
  }
  const text = () => {
    if (body === null) return ''
    if (!isBytes) return JSON.stringify(body)
    return typeof TextDecoder === 'function' ? new TextDecoder().decode(body) : decode(body)
  }
  const json = () => isBytes || body === null ? JSON.parse(text()) : body

  return { status, statusText, headers, body, ok: status >= 200 && status <= 299, json, text, bytes }
}`
