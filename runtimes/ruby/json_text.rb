# frozen_string_literal: true

require "strscan"

module ClocheAgent
  # JSON text to Ruby. Ruby's own json takes 4 ms to load, so short texts are parsed here; both parsers are strict.
  class JsonText
    include Own

    class Invalid < StandardError; end

    SHORT = 1 << 16
    # A map takes three nested JSON containers for each level.
    NESTING_MAX = 1000
    SPACE = /[ \t\r\n]*/.freeze
    NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?/.freeze
    PLAIN = /[^"\\\x00-\x1f]*/.freeze
    ESCAPES = {'"' => '"', "\\" => "\\", "/" => "/", "b" => "\b", "f" => "\f", "n" => "\n", "r" => "\r", "t" => "\t"}.freeze
    WORDS = {"true" => true, "false" => false, "null" => nil}.freeze

    class << self
      include Own

      def parse(text)
        raise Invalid, "the text is not UTF-8" unless text.valid_encoding?
        text.bytesize > SHORT ? parse_long(text) : new(text).document
      end

      private

      def parse_long(text)
        require "json"
        JSON::Ext::Parser.new(text, max_nesting: NESTING_MAX, create_additions: false).parse
      rescue JSON::ParserError => error
        raise Invalid, error.message[0, 200]
      end
    end

    def initialize(text)
      @text = StringScanner.new(text)
    end

    def document
      value = value(0)
      @text.skip(SPACE)
      @text.eos? ? value : fail_here
    end

    private

    def value(depth)
      @text.skip(SPACE)
      case @text.peek(1)
      when '"' then string
      when "{" then object(depth + 1)
      when "[" then array(depth + 1)
      when "-", "0".."9" then number
      else word
      end
    end

    def fail_here
      raise Invalid, "not JSON at byte #{@text.pos}"
    end

    def open(depth, close)
      raise Invalid, "nested too deeply" if depth > NESTING_MAX
      @text.getch
      @text.skip(SPACE)
      @text.skip(close)
    end

    # True if another member follows.
    def more?(close)
      @text.skip(SPACE)
      return true if @text.skip(/,/)
      @text.skip(close) ? false : fail_here
    end

    def array(depth)
      out = []
      return out if open(depth, /\]/)
      loop do
        out << value(depth)
        return out unless more?(/\]/)
      end
    end

    def object(depth)
      out = {}
      return out if open(depth, /\}/)
      loop do
        @text.skip(SPACE)
        key = @text.check(/"/) ? string : fail_here
        raise Invalid, "a key is there twice: #{key[0, 80].inspect}" if out.key?(key)
        @text.skip(SPACE)
        @text.skip(/:/) or fail_here
        out[key] = value(depth)
        return out unless more?(/\}/)
      end
    end

    def number
      text = @text.scan(NUMBER) or fail_here
      @text[1] || @text[2] ? text.to_f : text.to_i
    end

    def word
      text = @text.scan(/true|false|null/) or fail_here
      WORDS[text]
    end

    def string
      @text.getch
      out = @text.scan(PLAIN)
      until @text.skip(/"/)
        @text.skip(/\\/) or fail_here
        out << escape << @text.scan(PLAIN)
      end
      out
    end

    def escape
      letter = @text.getch
      return ESCAPES[letter] || fail_here unless letter == "u"
      code = unit
      return [code].pack("U") unless code.between?(0xd800, 0xdfff)
      low = @text.skip(/\\u/) ? unit : 0
      raise Invalid, "string has a lone surrogate" unless code < 0xdc00 && low.between?(0xdc00, 0xdfff)
      [0x10000 + ((code - 0xd800) << 10) + low - 0xdc00].pack("U")
    end

    def unit
      (@text.scan(/[0-9a-fA-F]{4}/) || fail_here).hex
    end
  end
end
