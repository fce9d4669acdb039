# frozen_string_literal: true

module ClocheAgent
  SAFE = (1 << 53) - 1
  DEPTH_MAX = 200
  PATH_ENDS = 100
  STRING_MAX = 256 << 20
  ITEMS_MAX = 1_000_000 # of values that may have no end
  ATTACHMENTS_MAX = 65_536
  CLASS_OF = Kernel.instance_method(:class)
  NAME_OF = Module.instance_method(:name)

  # The name of an object's class, even if the class overrides its methods.
  def self.class_name(value)
    kind = CLASS_OF.bind_call(value)
    kind = kind.superclass until (name = NAME_OF.bind_call(kind))
    name
  end

  # A class with a short name for the user, but no constant.
  def self.named(name, kind)
    return kind if Object.const_defined?(name, false)
    Object.const_set(name, kind)
    Object.__send__(:remove_const, name)
  end

  # A value that cannot be sent; every container adds its step to the path while this passes.
  class Refused < StandardError
    include Own

    def initialize(what)
      super
      @what = what
      @steps = []
    end

    def at(step)
      @steps.unshift(step)
      self
    end

    def message
      path = @steps.map { |step| text_of(step) }.join
      # Both ends identify the place well enough.
      path = "#{path[0, PATH_ENDS]}…#{path[-PATH_ENDS..]}" if path.length > 2 * PATH_ENDS
      "$#{path}: #{@what}"
    end

    private

    def text_of(step)
      return "[#{step}]" if Integer === step
      return "[#{Agent.class_name(step)}]" unless String === step || Symbol === step
      step = step.to_s.scrub
      step.match?(/\A[a-zA-Z_]\w*\z/) ? ".#{step}" : "[#{step[0, 80].inspect}]"
    end
  end

  class TooLarge < StandardError; end

  # Ruby to the wire (spec/values.md): JSON text, written as the value is walked so that it ends at its limit.
  class Encoder
    include Own

    SPECIAL = /["\\\x00-\x1f]/.freeze
    ESCAPES = (0..31).to_h { |code| [code.chr, format("\\u%04x", code)] }.merge('"' => '\"', "\\" => "\\\\").freeze
    EACH, EACH_PAIR, KEYS = Array.instance_method(:each), Hash.instance_method(:each_pair), Hash.instance_method(:keys)
    QUOTED_MAX = 1000
    PUBLIC_METHOD = Kernel.instance_method(:public_method)
    TEXTS = [Encoding::UTF_8, Encoding::US_ASCII].freeze

    attr_reader :parts

    def self.quote(text)
      return "\"#{text}\"" unless text.match?(SPECIAL)
      return "\"#{text.gsub(SPECIAL, ESCAPES)}\"" if text.bytesize <= JsonText::SHORT
      require "json"
      JSON::Ext::Generator::GeneratorMethods::String.instance_method(:to_json).bind_call(text)
    end

    # limit: the most bytes the text and its attachments may have together; 0: no limit.
    def initialize(limit)
      @limit = limit
      @out = String.new(capacity: 256, encoding: Encoding::UTF_8)
      @parts = []
      @size = 0
      @open = {}.compare_by_identity
      @quoted = {}
    end

    # The value's JSON text.
    def encode(value)
      one(value, 0)
      check_size
      @out
    end

    def one(value, depth)
      case value
      when nil then @out << "null"
      when true then @out << "true"
      when false then @out << "false"
      when String then string(value)
      when Symbol then text(value.to_s)
      when Integer then integer(value)
      when Float then real(value)
      when Array then TypedArray === value ? typed(value) : array(value, depth)
      when Hash then hash(value, depth)
      else other(value, depth)
      end
    end

    def items(container, depth)
      enter(container, depth)
      index = 0
      begin
        yield ->(item) {
          @out << "," unless index == 0
          one(item, depth + 1)
          check_size
          index += 1
        }
      rescue Refused => refusal
        raise refusal.at(index)
      end
      @open.delete(container)
    end

    def pairs(container, pairs, depth)
      names = pairs.map { |key, _| name_of(key) }
      return map(container, pairs, depth) if names.include?(nil)
      refuse_twice(names)
      enter(container, depth)
      escaped = names.any? { |name| name == "$" || name.include?("\0") }
      @out << (escaped ? '{"$":"object","v":[' : "{")
      members(names, pairs, depth, *(escaped ? ["[", ",", "]"] : ["", ":", ""]))
      @out << (escaped ? "]}" : "}")
      @open.delete(container)
    end

    # fields: the rest of the tag's JSON.
    def tag(kind, fields)
      @out << '{"$":"' << kind << '",' << fields << "}"
    end

    # A tag around the block's output.
    def tagged(kind, field)
      @out << '{"$":"' << kind << '","' << field << '":'
      yield
      @out << "}"
    end

    def list(container, depth, &each)
      @out << "["
      items(container, depth, &each)
      @out << "]"
    end

    # User code runs between the items: the agent's exceptions must not pass through its rescue clauses.
    def collect(enumerable, depth)
      room = Range === enumerable && Integer === enumerable.end ? Float::INFINITY : ITEMS_MAX
      list(enumerable, depth) do |add|
        failure = nil
        enumerable.each do |*yielded|
          break if (room -= 1) < 0
          add.call(yielded.size > 1 ? yielded : yielded[0])
        rescue Refused, TooLarge => failure
          break
        end
        raise failure if failure
      end
      return unless room < 0
      raise Refused, "#{Agent.class_name(enumerable)} of more than #{ITEMS_MAX} items cannot be sent: return an Array of those that are needed"
    end

    def attach(kind, data, fields = "")
      raise Refused, "more than #{ATTACHMENTS_MAX} attachments" if @parts.size == ATTACHMENTS_MAX
      tag(kind, %(#{fields}"at":#{@size},"n":#{data.bytesize}))
      @parts << data
      @size += data.bytesize
      check_size
    end

    def text(value)
      size = value.bytesize
      raise Refused, "string of #{size} bytes is over the maximum of #{STRING_MAX}" if size > STRING_MAX
      # Escaping multiplies the size: check first that the text itself has room.
      too_large(size) if @limit > 0 && size > @limit
      @out << Encoder.quote(value)
    end

    private

    def check_size
      size = @out.bytesize + @size
      too_large(size) if @limit > 0 && size > @limit
    end

    def too_large(size)
      raise TooLarge, "the result is #{size} bytes or more, over the limit of #{@limit} (resultBytes)"
    end

    def enter(container, depth)
      raise Refused, "nested deeper than #{DEPTH_MAX}: return it as text (to_json), or as a flat list" if depth >= DEPTH_MAX
      raise Refused, "cycle cannot be sent: return a copy without the way back" if @open.key?(container)
      @open[container] = true
    end

    def string(value)
      # A plain copy: overrides of a subclass do not change the text sent.
      value = String.new(value) unless value.instance_of?(String)
      value.encoding == Encoding::BINARY ? attach("bytes", value) : text(utf8(value))
    end

    def utf8(value)
      value = value.encode(Encoding::UTF_8) unless TEXTS.include?(value.encoding)
      raise EncodingError unless value.valid_encoding?
      value
    rescue EncodingError
      raise Refused, "String that is no valid #{value.encoding} cannot be sent: return its bytes (b), or scrub it"
    end

    def integer(value)
      return @out << value.to_s if value <= SAFE && value >= -SAFE
      tag("bigint", %("v":"#{value}"))
    end

    def real(value)
      if value.nan? then tag("number", '"v":"NaN"')
      elsif value.infinite? then tag("number", value < 0 ? '"v":"-Infinity"' : '"v":"Infinity"')
      elsif value == 0 && 1 / value < 0 then tag("number", '"v":"-0"')
      else @out << value.to_s
      end
    end

    def array(value, depth)
      list(value, depth) { |add| EACH.bind_call(value, &add) }
    end

    def hash(value, depth)
      keys = plain_keys(value)
      return pairs(value, EACH_PAIR.bind_call(value).to_a, depth) unless keys
      enter(value, depth)
      index = 0
      @out << "{"
      EACH_PAIR.bind_call(value) do |key, item|
        @out << "," unless index == 0
        @out << keys[index]
        one(item, depth + 1)
        check_size
        index += 1
      rescue Refused => refusal
        raise refusal.at(key)
      end
      @out << "}"
      @open.delete(value)
    end

    # The keys as an object's JSON has them, or nil if they need a closer look.
    def plain_keys(value)
      symbols = strings = false
      keys = KEYS.bind_call(value).map do |key|
        if Symbol === key then symbols = true
        elsif String === key && key.instance_of?(String) then strings = true
        else return nil
        end
        @quoted[key] || quote_key(key) || (return nil)
      end
      (symbols && strings) || value.compare_by_identity? ? nil : keys
    end

    # Few keys, many objects: each key is quoted once.
    def quote_key(key)
      name = name_of(key)
      return nil if name.nil? || name == "$" || name.include?("\0")
      @quoted.clear if @quoted.size == QUOTED_MAX
      @quoted[key] = "#{Encoder.quote(name)}:"
    end

    def members(names, pairs, depth, before, between, after)
      index = 0
      while index < names.size
        @out << "," unless index == 0
        @out << before
        text(names[index])
        @out << between
        one(pairs[index][1], depth + 1)
        @out << after
        check_size
        index += 1
      end
    rescue Refused => refusal
      raise refusal.at(names[index])
    end

    # The name of a key in an object, or nil if it can only be in a map.
    def name_of(key)
      case key
      when Symbol then utf8(key.to_s)
      when String then key.encoding == Encoding::BINARY ? nil : utf8(String.new(key))
      end
    rescue Refused => refusal
      raise refusal.at(key.to_s)
    end

    # :a and "a" are two keys in Ruby.
    def refuse_twice(names)
      seen = {}
      names.each do |name|
        raise Refused, "the key #{name[0, 80].inspect} is there twice, as String and Symbol" if seen.key?(name)
        seen[name] = true
      end
    end

    def map(container, pairs, depth)
      refuse_twice(pairs.map { |key, _| name_of(key) }.compact)
      enter(container, depth)
      @out << '{"$":"map","v":['
      pairs.each_with_index do |(key, item), index|
        @out << "," unless index == 0
        @out << "["
        one(key, depth + 1)
        @out << ","
        one(item, depth + 1)
        @out << "]"
        check_size
      rescue Refused => refusal
        raise refusal.at(key)
      end
      @out << "]}"
      @open.delete(container)
    end

    def typed(value)
      Agent.part("rare")
      attach("array", Rare.pack(value), %("t":"#{value.type}",))
    end

    def other(value, depth)
      Agent.part("rare")
      return if Rare.encode(self, value, depth)
      Agent.part("evident")
      return if Evident.encode(self, value, depth)
      pairs = own_pairs(value)
      pairs ? pairs(value, pairs, depth) : Evident.encode_object(self, value, depth)
    end

    # Struct, Data, OpenStruct and other classes with a to_h of their own. Enumerable's does not count.
    def own_pairs(value)
      method = own_to_h(value)
      given = method&.call
      Hash === given ? EACH_PAIR.bind_call(given).to_a : nil
    end

    def own_to_h(value)
      method = PUBLIC_METHOD.bind_call(value, :to_h)
      method.owner == Enumerable || method.arity > 0 ? nil : method
    rescue Exception
      nil # it has none, or its method_missing throws
    end
  end

  # A decoded typed array: an Array that keeps its element type, so that it is sent back unchanged.
  TypedArray = named(:TypedArray, Class.new(Array) do
    attr_reader :type

    def initialize(items, type)
      super(items)
      @type = type
    end
  end)

  # The wire to Ruby. One decoder for each frame: attachments may be used once. JSON trees are converted in place.
  class Decoder
    include Own

    # The value holds a reference: few do, and containers are numbered only for them.
    class Referring < StandardError; end

    NUMBERS = {"NaN" => Float::NAN, "Infinity" => Float::INFINITY, "-Infinity" => -Float::INFINITY, "-0" => -0.0}.freeze
    BIGINT = /\A(?:0|-?[1-9][0-9]*)\z/.freeze

    attr_reader :attachments, :ranges

    def initialize(attachments)
      @attachments = attachments
      @ranges = []
    end

    # One whole value.
    def decode(node)
      if refers?(node)
        Agent.part("rare")
        Rebuilder.new(self).one(node, 0)
      else
        one(node, 0)
      end
    end

    def one(node, depth)
      case node
      when String then check_text(node)
      when Integer then node.between?(-SAFE, SAFE) ? node : raise(Refused, "integer outside the safe range must be a bigint")
      when Float then node.infinite? ? raise(Refused, "number is too large") : node
      when Array then items(node, depth)
      when Hash then node.key?("$") ? tagged(node, depth) : object(node, depth, node)
      else node
      end
    end

    def finish
      past = 0
      @ranges.sort.each do |at, size|
        raise Refused, "attachment ranges overlap" if at < past && size > 0
        past = [past, at + size].max
      end
    end

    def items(node, depth)
      list(node, depth, node)
    end

    def list(node, depth, out)
      check_depth(depth)
      node.each_with_index do |item, index|
        out[index] = one(item, depth + 1)
      rescue Refused => refusal
        raise refusal.at(index)
      end
      out
    end

    def object(pairs, depth, out)
      members(pairs, depth, out)
    end

    def members(pairs, depth, out)
      check_depth(depth)
      pairs.each do |key, item|
        out[check_text(key)] = one(item, depth + 1)
      rescue Refused => refusal
        raise refusal.at(key)
      end
      out
    end

    # The order of keys counts if containers are numbered.
    def ordered(pairs)
      pairs
    end

    def check_depth(depth)
      raise Refused, "nested deeper than #{DEPTH_MAX}" if depth >= DEPTH_MAX
    end

    def check_text(text)
      text.valid_encoding? ? text : raise(Refused, "string is not Unicode")
    end

    # A tag has exactly these fields.
    def fields(node, *names)
      return if node.size == names.size + 1 && names.all? { |name| node.key?(name) }
      raise Refused, "#{node["$"]} must have exactly the fields #{names.join(", ")}"
    end

    def only(node, kind)
      fields(node, "v")
      kind === node["v"] ? node["v"] : raise(Refused, "#{node["$"]} has a wrong value")
    end

    def pair_list(node)
      pairs = only(node, Array)
      return pairs if pairs.all? { |pair| Array === pair && pair.size == 2 }
      raise Refused, "#{node["$"]} must be a list of pairs"
    end

    def string_pairs(node)
      seen = {}
      pair_list(node).each do |key, _|
        raise Refused, "object has a key that is not a string" unless String === key
        raise Refused, "#{key[0, 80].inspect} is there twice" if seen.key?(key)
        seen[key] = true
      end
    end

    def attached(node, *more)
      if node.key?("b64")
        fields(node, "b64", *more)
        return from_base64(node["b64"])
      end
      fields(node, "at", "n", *more)
      at, size = node["at"], node["n"]
      raise Refused, "attachment range is not a pair of sizes" unless [at, size].all? { |n| Integer === n && n >= 0 }
      raise Refused, "attachment range is outside the frame" if at + size > @attachments.bytesize
      @ranges << [at, size]
      raise Refused, "more than #{ATTACHMENTS_MAX} attachments" if @ranges.size > ATTACHMENTS_MAX
      @attachments.byteslice(at, size)
    end

    private

    # No recursion: deep nesting is found later, with a better message.
    def refers?(node)
      waiting = [node]
      while (node = waiting.pop)
        case node
        when Hash
          return true if node["$"] == "ref"
          node.each_value { |item| waiting << item if Hash === item || Array === item }
        when Array then node.each { |item| waiting << item if Hash === item || Array === item }
        end
      end
      false
    end

    def tagged(node, depth)
      case node["$"]
      when "number" then number(only(node, String))
      when "undefined", "hole" then node.size == 1 ? nil : raise(Refused, "undefined has fields")
      when "bigint" then bigint(only(node, String))
      when "bytes", "buffer" then attached(node)
      when "object" then object(string_pairs(node), depth, {})
      when "set" then set(node, depth)
      when "map" then map(node, depth)
      else rare(node, depth)
      end
    end

    def number(name)
      NUMBERS.fetch(name) { raise Refused, "number #{name[0, 80].inspect}" }
    end

    def bigint(text)
      text.match?(BIGINT) ? text.to_i : raise(Refused, "bigint #{text[0, 80].inspect}")
    end

    def from_base64(text)
      data = String === text ? text.unpack1("m0") : raise(Refused, "bytes are not base64")
      [data].pack("m0") == text ? data : raise(Refused, "bytes are not base64")
    rescue ArgumentError
      raise Refused, "bytes are not base64"
    end

    def set(node, depth)
      require "set"
      fill_set(node, depth, Set.new)
    end

    def fill_set(node, depth, out)
      list(only(node, Array), depth, []).each_with_index do |item, index|
        out.add?(key(item)) or raise Refused, "#{item.inspect[0, 80]} is there twice"
      rescue Refused => refusal
        raise refusal.at(index)
      end
      out
    end

    def map(node, depth)
      fill_map(node, depth, {})
    end

    def fill_map(node, depth, out)
      check_depth(depth)
      pair_list(node).each_with_index do |(key, item), index|
        key = key(one(key, depth + 1))
        raise Refused, "#{key.inspect[0, 80]} is there twice" if out.key?(key)
        out[key] = one(item, depth + 1)
      rescue Refused => refusal
        raise refusal.at(index)
      end
      out
    end

    def key(value)
      value
    end

    def rare(node, depth)
      Agent.part("rare")
      Rare.decode(self, node, depth)
    end
  end
end
