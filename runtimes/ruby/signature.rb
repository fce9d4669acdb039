# frozen_string_literal: true

module ClocheAgent
  # Maps a request's arguments to those of a call. Arguments that Ruby would reject are rejected
  # here, by name and before anything runs.
  class Signature
    include Own

    # As in other languages: a last parameter of such a name takes the unclaimed keywords.
    OPTIONS = %i[options opts config].freeze
    METHOD_OF = Module.instance_method(:instance_method)

    class << self
      # [positional arguments, keywords]
      def bind(callable, name, args, holes, keywords, order)
        signature = new(callable, name)
        signature.place(args, holes)
        signature.place_keywords(keywords, order || [])
        signature.arguments
      end

      # True if names of parameters are visible. Methods written in C often have none.
      def known?(callable)
        parameters(callable).all? { |_, name| name }
      end

      # Class#new takes what the class's `initialize` takes.
      def parameters(callable)
        return callable.parameters unless Method === callable && callable.owner == Class && callable.name == :new
        METHOD_OF.bind_call(callable.receiver, :initialize).parameters
      end
    end

    def initialize(callable, name)
      @name = name
      @parameters = self.class.parameters(callable)
      @is_lenient = Proc === callable && !callable.lambda?
      @has_rest = kind?(:rest)
      @has_keyrest = kind?(:keyrest)
      @keywords = @parameters.select { |kind, _| %i[key keyreq].include?(kind) }.map(&:last)
      sort_positions
      @placed = {}
      @named = {}
    end

    def place(args, holes)
      args.each_with_index { |value, index| @placed[index] = value unless holes.include?(index) }
      @is_spaced = @placed.size < args.size
    end

    def place_keywords(keywords, order)
      options = {}
      keywords.each do |key, value|
        name = key.to_sym
        if @keywords.include?(name) || (@has_keyrest && !free?(name)) then @named[name] = value
        elsif (at = @names.index(name) || order.index(key)) then occupy(at, name, value)
        else options[name] = value
        end
      end
      take_options(options) unless options.empty?
      missing = @parameters.find { |kind, name| kind == :keyreq && !@named.key?(name) }
      refuse("missing keyword '#{missing[1]}'") if missing && !@is_lenient
    end

    def arguments
      [@is_spaced ? spaced : counted, @named]
    end

    private

    def kind?(wanted)
      @parameters.any? { |kind, _| kind == wanted }
    end

    # lead, optional, post: in the order in which Ruby fills them; post is filled from the end.
    def sort_positions
      positional = @parameters.select { |kind, _| %i[req opt rest].include?(kind) }
      cut = positional.index { |kind, _| kind != :req } || positional.size
      @lead = positional[0, cut]
      after = positional[cut..-1]
      @optional = after.select { |kind, _| kind == :opt }
      @post = after.select { |kind, _| kind == :req }
      @names = (@lead + @optional + @post).map(&:last)
    end

    def free?(name)
      at = @names.index(name)
      at && !@placed.key?(at)
    end

    def occupy(at, name, value)
      refuse("argument '#{name}' is given twice") if @placed.key?(at)
      @placed[at] = value
      @is_spaced = true
    end

    def take_options(options)
      at = @names.size - 1
      takes = @keywords.empty? && at >= 0 && OPTIONS.include?(@names[at]) && (!@placed.key?(at) || Hash === @placed[at])
      refuse("unknown keyword '#{options.keys[0]}'") unless takes
      @placed[at] = (@placed[at] || {}).merge(options)
      @is_spaced = true
    end

    # Nothing omitted and nothing by name: Ruby's own way of filling parameters.
    def counted
      missing = (@lead + @post)[@placed.size]
      refuse("missing argument #{label(missing[1], @placed.size)}") if missing && !@is_lenient
      refuse_surplus(@placed.size)
      @placed.values
    end

    # By position. An omitted parameter must be optional, and so must all that follow it.
    def spaced
      last = @placed.keys.max
      refuse_surplus(last ? last + 1 : 0)
      refuse_gaps
      front = @lead.size + @optional.size
      behind = @placed.keys.select { |at| at >= @names.size }
      refuse("arguments for *rest cannot be given when others are left out or named") if behind.any? && @post.any?
      values(0...front) + values(behind) + values(front...@names.size)
    end

    def values(places)
      places.select { |at| @placed.key?(at) || (@is_lenient && at < @placed.keys.max) }.map { |at| @placed[at] }
    end

    def refuse_surplus(given)
      return if given <= @names.size || @has_rest || @is_lenient
      refuse("argument #{@names.size + 1} is too many")
    end

    def refuse_gaps
      return if @is_lenient
      @names.each_index do |at|
        next if @placed.key?(at)
        refuse("missing argument #{label(@names[at], at)}") unless at.between?(@lead.size, @lead.size + @optional.size - 1)
        later = @placed.keys.find { |other| other > at && !post?(other) }
        refuse("Ruby cannot leave out #{label(@names[at], at)} and take #{label(@names[later], later)}") if later
      end
    end

    def post?(at)
      at.between?(@lead.size + @optional.size, @names.size - 1)
    end

    def label(name, at)
      name ? "'#{name}'" : "at position #{at}"
    end

    def refuse(what)
      raise ArgumentError, "#{@name}(#{@parameters.map { |kind, name| spell(kind, name) }.compact.join(", ")}): #{what}"
    end

    def spell(kind, name)
      case kind
      when :opt then "#{name} = default"
      when :rest then "*#{name}"
      when :keyrest then "**#{name}"
      when :keyreq then "#{name}:"
      when :key then "#{name}: default"
      when :req then (name || "_").to_s
      end
    end
  end
end
