# frozen_string_literal: true

module ClocheAgent
  # Values that few programs send: dates, sets, typed arrays, patterns, errors, and references among
  # containers. Loaded on first use.
  module Rare
    extend Own

    DAY, CLOCK = /([0-9]{4})-([0-9]{2})-([0-9]{2})/.freeze, /([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?/.freeze
    DATE = /\A#{DAY}(?:T#{CLOCK}(Z|[-+][0-9]{2}:[0-9]{2})?)?\z/.freeze
    # The wire's types in the notation of pack and unpack, and the range of an integer type.
    TYPES = {
      "i8" => ["c*", -(1 << 7)...(1 << 7)], "u8" => ["C*", 0...(1 << 8)], "u8c" => ["C*", 0...(1 << 8)],
      "i16" => ["s<*", -(1 << 15)...(1 << 15)], "u16" => ["S<*", 0...(1 << 16)],
      "i32" => ["l<*", -(1 << 31)...(1 << 31)], "u32" => ["L<*", 0...(1 << 32)],
      "i64" => ["q<*", -(1 << 63)...(1 << 63)], "u64" => ["Q<*", 0...(1 << 64)],
      "f32" => ["e*", nil], "f64" => ["E*", nil]
    }.freeze
    FLAGS = {"i" => Regexp::IGNORECASE, "s" => Regexp::MULTILINE}.freeze
    # An escape or a class of characters: its content is no anchor.
    NO_ANCHOR = /\\.|\[(?:\\.|[^\]\\])*\]/m.freeze
    SENDABLE = Regexp::IGNORECASE | Regexp::MULTILINE | Regexp::FIXEDENCODING
    CLASS_NAME = /\A[A-Za-z]{1,64}\z/.freeze
    PARTS_OF_ERROR = %w[name message stack fields].freeze

    # The zone of a time that has none. Ruby has only times with a zone; this one is 0 and is not sent.
    NAIVE = Object.new
    class << NAIVE
      def local_to_utc(time)
        time
      end
      alias utc_to_local local_to_utc

      def name
        "naive"
      end
      alias inspect name
      alias to_s name
    end

    class << self
      # ---- Ruby to the wire ----

      # False if the value is none of these.
      def encode(encoder, value, depth)
        case value
        when Time then encoder.tag("date", %("v":"#{time_text(value)}"))
        when Regexp then pattern(encoder, value)
        else return day(encoder, value) || set(encoder, value, depth)
        end
        true
      end

      def pack(array)
        code, range = TYPES[array.type]
        array.each_with_index do |item, index|
          next if range ? Integer === item && range.cover?(item) : Float === item || Integer === item
          raise Refused.new("#{Agent.class_name(item)} that is no #{array.type} cannot be sent in a typed array: return an Array").at(index)
        end
        array.pack(code)
      end

      # ---- the wire to Ruby ----

      def decode(decoder, node, depth)
        case node["$"]
        when "array" then typed(decoder, node)
        when "date" then date(decoder, node)
        when "regexp" then regexp(decoder, node)
        when "error" then error(decoder, node, depth)
        when "class" then carried(decoder, node, depth)
        when "utf16" then raise Refused, "string with a lone surrogate cannot be held by Ruby"
        else raise Refused, "unknown kind #{node["$"].inspect[0, 80]}"
        end
      end

      def carried(decoder, node, depth)
        decoder.fields(node, "t", "v")
        name = node["t"]
        raise Refused, "class of the name #{name.inspect[0, 80]}" unless String === name && name.match?(CLASS_NAME)
        decoder.check_depth(depth)
        decoder.one(node["v"], depth + 1)
      end

      # A block receives the error before its fields, which may refer to it.
      def error(decoder, node, depth)
        told = decoder.only(node, Hash)
        decoder.check_depth(depth)
        check_error(decoder, told)
        error = HostErrors.make(told["name"], told["message"])
        error.set_backtrace(told["stack"].lines(chomp: true)) if told.key?("stack")
        yield error if block_given?
        fields = decoder.members(field_pairs(decoder, told.fetch("fields") { {} }), depth, {})
        HostErrors.add_fields(error, fields)
      end

      def defined_class(name)
        Object.const_defined?(name, false) && !Object.autoload?(name) ? Object.const_get(name, false) : nil
      end

      private

      def time_text(time)
        is_naive = NAIVE.equal?(time.zone)
        time = time.getutc if time.utc_offset % 60 != 0 && !is_naive
        check_year(time.year)
        fraction = time.nsec
        text = time.strftime("%Y-%m-%dT%H:%M:%S")
        text += fraction % 1000 == 0 ? format(".%06d", fraction / 1000) : format(".%09d", fraction) if fraction != 0
        return text if is_naive
        text + (time.utc_offset == 0 ? "Z" : time.strftime("%:z"))
      end

      def check_year(year)
        raise Refused, "a date in the year #{year} cannot be sent: return its text (to_s)" unless year.between?(1, 9999)
      end

      def day(encoder, value)
        return false unless (date = defined_class(:Date)) && date === value
        if (date_time = defined_class(:DateTime)) && date_time === value
          text = time_text(value.to_time)
        else
          value = value.gregorian
          check_year(value.year)
          text = value.strftime("%Y-%m-%d")
        end
        encoder.tag("date", %("v":"#{text}"))
        true
      end

      def set(encoder, value, depth)
        return false unless (set = defined_class(:Set)) && set === value
        encoder.tagged("set", "v") { encoder.list(value, depth) { |add| value.to_a.each(&add) } }
        true
      end

      # ^ and $ are the ends of lines in Ruby, which is flag m elsewhere: so the flag is sent if they occur.
      def pattern(encoder, value)
        raise Refused, "Regexp of bytes or with flag x cannot be sent: return its source" unless value.options & ~SENDABLE == 0
        source = value.source.encode(Encoding::UTF_8)
        flags = FLAGS.select { |_, option| value.options & option != 0 }.keys
        flags << "m" if source.gsub(NO_ANCHOR, "").match?(/[\^$]/)
        encoder.tag("regexp", %("source":#{Encoder.quote(source)},"flags":"#{flags.sort.join}"))
      rescue EncodingError
        raise Refused, "Regexp of #{value.encoding} cannot be sent: return its source"
      end

      def typed(decoder, node)
        data = decoder.attached(node, "t")
        code, = TYPES[node["t"]]
        raise Refused, "typed array of unknown type #{node["t"].inspect[0, 80]}" unless code
        size = node["t"][/[0-9]+/].to_i / 8
        raise Refused, "#{data.bytesize} bytes are no whole number of #{node["t"]}" unless data.bytesize % size == 0
        TypedArray.new(data.unpack(code), node["t"])
      end

      def date(decoder, node)
        decoder.fields(node, "v")
        text = node["v"]
        return nil if text.nil?
        parts = String === text && text.match(DATE)
        made = parts && (parts[4] ? time_of(parts) : day_of(parts))
        made or raise Refused, "date #{text.inspect[0, 80]}"
      end

      def day_of(parts)
        require "date"
        figures = parts.captures[0, 3].map(&:to_i)
        Date.valid_civil?(*figures, Date::GREGORIAN) && Date.new(*figures, Date::GREGORIAN)
      end

      def time_of(parts)
        year, month, day, hour, minute, second = parts.captures[0, 6].map(&:to_i)
        return nil unless month.between?(1, 12) && day.between?(1, days_of(year, month))
        return nil unless hour < 24 && minute < 60 && second < 60
        second += fraction(parts[7]) if parts[7]
        case zone = parts[8]
        when nil then Time.new(year, month, day, hour, minute, second, NAIVE)
        when "Z" then Time.utc(year, month, day, hour, minute, second)
        else zone[1, 2].to_i < 24 && zone[4, 2].to_i < 60 ? Time.new(year, month, day, hour, minute, second, zone) : nil
        end
      end

      def days_of(year, month)
        return 30 if [4, 6, 9, 11].include?(month)
        return 31 unless month == 2
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
      end

      def fraction(figures)
        raise Refused, "date finer than a nanosecond" if figures.size > 9 && figures[9..].match?(/[1-9]/)
        Rational(figures[0, 9].to_i, 10**[figures.size, 9].min)
      end

      def regexp(decoder, node)
        decoder.fields(node, "source", "flags")
        source, letters = node["source"], node["flags"]
        raise Refused, "regexp has a wrong source or flags" unless String === source && String === letters
        is_known = letters.match?(/\A[dgimsuvy]*\z/) && letters.chars.uniq.size == letters.size
        raise Refused, "regexp has the flags #{letters[0, 80].inspect}" unless is_known
        Regexp.new(decoder.check_text(source), FLAGS.sum { |letter, option| letters.include?(letter) ? option : 0 })
      rescue RegexpError, ArgumentError => error
        raise Refused, "regexp is none in Ruby: #{error.message[0, 200]}"
      end

      def check_error(decoder, told)
        %w[name message].each { |name| raise Refused, "error has a wrong #{name}" unless String === told[name] }
        raise Refused, "error has a wrong stack" unless !told.key?("stack") || String === told["stack"]
        raise Refused, "error has an unknown field" unless (told.keys - PARTS_OF_ERROR).empty?
        told.each_value { |text| decoder.check_text(text) if String === text }
      end

      def field_pairs(decoder, node)
        raise Refused, "error has wrong fields" unless Hash === node && node.fetch("$", "object") == "object"
        node.key?("$") ? decoder.string_pairs(node) : decoder.ordered(node)
      end
    end
  end

  # Errors of other languages, as exceptions: of Ruby's own class of that name if there is one, else
  # of a class that holds the name.
  module HostErrors
    extend Own

    # Members of every such error: the host's fields, each also a method of its own name.
    module Fields
      def fields
        @fields ||= {}
      end
    end

    # Named before any user code runs: users see no name of the agent's.
    HostError = Agent.named(:HostError, Class.new(StandardError) do
      include Fields

      attr_reader :name

      def initialize(name, message)
        super(message)
        @name = name
      end
    end)

    KNOWN = Object.constants.grep(/(?:Error|Exception)\z/).map { |name| Object.const_get(name) }
      .select { |kind| Class === kind && (kind <= StandardError || kind <= ScriptError) }.to_h { |kind| [kind.name, kind] }.freeze

    class << self
      def make(name, message)
        kind = KNOWN[name]
        made = kind ? kind.new(message) : HostError.new(name, message)
        made.message == message ? made : HostError.new(name, message)
      rescue ArgumentError
        HostError.new(name, message)
      end

      def add_fields(error, fields)
        error.extend(Fields) unless Fields === error
        fields.each do |name, value|
          error.fields[name] = value
          next unless name.match?(/\A[a-z_]\w*\z/) && !error.respond_to?(name, true)
          error.define_singleton_method(name) { value }
        end
        error
      end
    end
  end

  # Decodes a value with references: numbers every container as it opens.
  class Rebuilder < Decoder
    INDEX = /\A(?:0|[1-9][0-9]{0,9})\z/.freeze

    def initialize(plain)
      super(plain.attachments)
      @ranges = plain.ranges
      @opened = []
      @unfinished = {}.compare_by_identity
    end

    def items(node, depth)
      opened([]) { |out| list(node, depth, out) }
    end

    def object(pairs, depth, _out)
      opened({}) { |out| members(Hash === pairs ? ordered(pairs) : pairs, depth, out) }
    end

    def ordered(pairs)
      last = -1
      pairs.each_key do |key|
        index = key.match?(INDEX) && key.to_i < 0xffff_ffff
        raise Refused, "an object in a value with references must have its keys in JavaScript's order" if index && key.to_i < last
        last = index ? key.to_i : 1 << 32
      end
      pairs
    end

    private

    def opened(out)
      @opened << out
      @unfinished[out] = true
      yield out
      @unfinished.delete(out)
      out
    end

    def fill_set(node, depth, out)
      opened(out) { super }
    end

    def fill_map(node, depth, out)
      opened(out) { super }
    end

    def key(value)
      check_key(value, {}.compare_by_identity.merge!(@unfinished), 0)
      value
    end

    # Its hash would change while it is open, and would visit shared values at each occurrence.
    def check_key(value, seen, depth)
      return unless Array === value || Hash === value || Set === value
      check_depth(depth)
      raise Refused, "a container that is still open, or twice in one item or key, cannot be hashed" if seen.key?(value)
      seen[value] = true
      value.to_a.each { |item| check_key(item, seen, depth + 1) }
    end

    def tagged(node, depth)
      case node["$"]
      when "ref" then reference(node)
      when "class" then open_class(node, depth)
      when "error" then Rare.error(self, node, depth) { |error| @opened << error }
      else super
      end
    end

    # The class's content stands for it, but only once it is decoded.
    def open_class(node, depth)
      number = @opened.size
      @opened << @unfinished
      @opened[number] = Rare.carried(self, node, depth)
    end

    def reference(node)
      fields(node, "n")
      number = node["n"]
      found = Integer === number && number >= 0 && number < @opened.size && !@unfinished.equal?(@opened[number])
      found ? @opened[number] : raise(Refused, "reference to what is not opened before it")
    end
  end
end
