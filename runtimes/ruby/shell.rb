# frozen_string_literal: true

module ClocheAgent
  # Functions for cells: the module Cloche, `display` at the top level, and input requests where
  # Ruby reads lines from standard input.
  module Shell
    extend Own

    # Kinds that can be shown directly: the MIME type, and the class of the value.
    KINDS = {html: ["text/html", String], markdown: ["text/markdown", String], latex: ["text/latex", String], svg: ["image/svg+xml", String],
             png: ["image/png", String], jpeg: ["image/jpeg", String], pdf: ["application/pdf", String],
             javascript: ["application/javascript", String], json: ["application/json", BasicObject],
             chart: ["application/vnd.cloche.chart+json", Hash]}.freeze
    GETS, READLINE = Kernel.instance_method(:gets), Kernel.instance_method(:readline)
    SECRET = :cloche_input_is_secret

    # A place on the page whose content can be changed.
    Place = Class.new do
      attr_reader :id

      def initialize(id)
        @id = id
      end

      def update(value)
        Border.ours { Shell.show(Formats.of(value), id: @id, update: true) }
      end

      def inspect
        "#<Cloche::Place #{@id}>"
      end
    end

    class << self
      def install
        return if @is_installed
        @is_installed = true
        add_module
        add_display
        add_questions
        quietly { Commands.install }
      end

      # look: [data, metadata]. Returns the place, if an id was given.
      def show(look, id: nil, update: false, metadata: {})
        raise TypeError, "metadata: must be a Hash" unless Hash === metadata
        id = Random.urandom(8).unpack1("H*") if id == true
        id = id && Errors.clean(id.to_s)
        Serve.context.display(look[0], look[1].merge(metadata), id: id, is_update: update ? true : false)
        id && !update ? Place.new(id) : nil
      end

      def display(values, options)
        Border.ours { values.map { |value| show(Formats.of(value), **options) }.last }
      end

      # type: the class that the value must have.
      def show_kind(name, kind, type, value, options)
        Border.ours do
          raise TypeError, "Cloche.#{name} takes a #{type}, not #{Agent.class_name(value)}" unless type === value
          show([{kind => value}, {}], **options)
        end
      end

      # True if the call is for Ruby's own Object#display.
      def plain?(values, options)
        Border.ours { options.empty? && (values.empty? || (values.size == 1 && IO === values[0])) }
      end

      def input(prompt, is_secret = false)
        Border.ours { Serve.context.input(prompt.to_s, is_secret ? true : false) }
      end

      # As IO#gets: with its newline, or without.
      def line(chomp)
        text = input("", Thread.current[SECRET])
        chomp ? text : "#{text}\n"
      end

      private

      def add_module
        offered = Module.new
        KINDS.each do |name, (kind, type)|
          offered.define_singleton_method(name) { |value, **options| Shell.show_kind(name, kind, type, value, options) }
        end
        offered.define_singleton_method(:display) { |*values, **options| Shell.display(values, options) }
        offered.define_singleton_method(:input) { |prompt = "", password: false| Shell.input(prompt, password) }
        offered.define_singleton_method(:clear) { |wait: false| Border.ours { Serve.context.clear(wait ? true : false) } }
        offered.const_set(:Place, Place)
        Object.const_set(:Cloche, offered)
      end

      # Every object has a `display` that prints it: calls without arguments, or with an IO, keep that meaning.
      def add_display
        Call::MAIN.define_singleton_method(:display) do |*values, **options|
          Shell.plain?(values, options) ? super(*values) : Shell.display(values, options)
        end
      end

      # Standard input itself is empty.
      def add_questions
        %i[gets readline].each { |name| STDIN.define_singleton_method(name) { |*_, chomp: false| Shell.line(chomp) } }
        STDIN.define_singleton_method(:getpass) { |prompt = ""| Shell.input(prompt, true) }
        STDIN.define_singleton_method(:noecho) { |&work| Shell.secretly { work.call(self) } }
        replace(:gets, GETS)
        replace(:readline, READLINE)
      end

      def replace(name, own)
        quietly do
          Kernel.define_method(name) do |*args, **options|
            next own.bind_call(self, *args, **options) unless ARGV.empty?
            $stdin.__send__(name, *args, **options)
          end
        end
        Kernel.__send__(:private, name)
      end

      # Without warnings about replaced methods.
      def quietly
        verbose, $VERBOSE = $VERBOSE, nil
        yield
      ensure
        $VERBOSE = verbose
      end
    end

    def self.secretly
      Thread.current[SECRET] = true
      yield
    ensure
      Thread.current[SECRET] = nil
    end
  end
end
