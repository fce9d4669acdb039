# frozen_string_literal: true

module ClocheAgent
  # The methods of Ruby's own classes that the agent uses, as they were before the user's code ran.
  # Programs change Integer#+ or String#==, by intent or not; while the agent works, its originals
  # are restored.
  module Pristine
    extend Own

    NAMES = {
      Integer => %i[+ - * / % & << ** < > <= >= == <=> === to_s to_i times zero? coerce],
      Float => %i[to_s nan? infinite? == < > <= >= <=> /],
      Comparable => %i[between? clamp],
      Symbol => %i[name to_s to_proc == === start_with? end_with? =~],
      String => %i[+ * % == === =~ <=> << [] b bytesize byteslice chomp dup eql? hash empty? encode encoding end_with? force_encoding
                   freeze gsub hex include? index inspect length lines match match? rindex scrub size split start_with? sub to_f
                   to_i to_s to_str to_sym unpack unpack1 upcase valid_encoding? rstrip delete_prefix],
      Array => %i[+ - * & << [] []= all? any? compact concat drop each each_index each_with_index empty? find first flat_map include?
                  inject join last map none? pack pop product push reject reverse rindex select size sort sort_by sum take to_a to_h
                  uniq unshift values_at zip],
      Hash => %i[[] []= any? clear compare_by_identity delete each each_key each_pair each_value empty? fetch key? keys map merge merge!
                 select size to_a to_h to_proc values values_at find],
      Range => %i[cover? === each map to_h begin end], Regexp => %i[=== =~ match match? source options],
      Proc => %i[call === parameters lambda?], Method => %i[call owner name receiver arity parameters source_location unbind], MatchData => %i[[] captures pre_match],
      UnboundMethod => %i[bind_call owner parameters source_location ==], Module => %i[=== < <= const_defined? const_get const_set name],
      Class => %i[new allocate superclass], Exception => %i[backtrace cause set_backtrace], NilClass => %i[== nil? & to_s to_a],
      IO => %i[close fileno flush stat syswrite sysread], Thread::Mutex => %i[lock synchronize unlock], Struct => %i[== to_a],
      Time => %i[year nsec utc_offset strftime getutc zone], Kernel => %i[=== class instance_of? is_a? public_send respond_to?]
    }.freeze
    METHOD = Module.instance_method(:instance_method)
    DEFINE = Module.instance_method(:define_method)
    REMOVE, UNDEFINE = Module.instance_method(:remove_method), Module.instance_method(:undef_method)

    # Linked lists: walking an array takes Integer#+ and Array#[], which may have been changed.
    Known = Struct.new(:owner, :name, :method, :rest)
    KNOWN = NAMES.inject(nil) do |rest, (owner, names)|
      names.select { |name| owner.method_defined?(name) || owner.private_method_defined?(name) }
        .inject(rest) { |list, name| Known.new(owner, name, owner.instance_method(name), list) }
    end

    # Set a flag when the class is changed; until then there is nothing to restore. Calls no method
    # that could itself have been changed.
    def self.watch(owner)
      layer = Module.new
      %i[method_added method_removed method_undefined].each do |event|
        layer.define_method(event) do |*args|
          Pristine.touched if equal?(owner)
          super(*args)
        end
        layer.__send__(:private, event)
      end
      owner.extend(layer)
    end

    class << self
      # All work of the agent on the main thread is done between these two.
      def restore
        @is_ours = true
        put_all_back
      end

      # Apply the user's changes again.
      def reapply
        @is_ours = false
        change_all_again unless @guests
      end

      # Agent work within user code, on any thread. The nesting is a list: counting takes Integer#+.
      def during
        @guests = [@guests]
        put_all_back
        yield
      ensure
        @guests = @guests[0]
        change_all_again unless @guests || @is_ours
      end

      # User code within `during`.
      def outside
        @guests = @guests[0]
        change_all_again unless @guests || @is_ours
        yield
      ensure
        @guests = [@guests]
        put_all_back
      end

      # For the main thread, while it waits for a request and others go on.
      def idle
        reapply
        yield
      ensure
        restore
      end

      # Changes in the block are the agent's.
      def trusting
        was_touched = @is_touched
        yield
      ensure
        @is_touched = was_touched
      end

      def touched
        @is_touched = true
      end

      # Changes up to here are the agent's, or a trusted library's.
      def trust
        @is_touched = false
      end

      private

      # Idempotent: doing it twice is harmless.
      def put_all_back
        changed = @changed
        known = @is_touched ? KNOWN : nil
        while known
          now = current(known.owner, known.name)
          changed = put_back(known, now, changed) unless now == known.method
          known = known.rest
        end
        @changed = changed
      end

      def change_all_again
        changed, @changed = @changed, nil
        while changed
          changed.method ? define(changed.owner, changed.name, changed.method) : UNDEFINE.bind_call(changed.owner, changed.name)
          changed = changed.rest
        end
      end

      def current(owner, name)
        METHOD.bind_call(owner, name)
      rescue NameError
        nil
      end

      # A method may be redefined, undefined, or hidden by one of a prepended module.
      def put_back(known, now, changed)
        owner = now ? now.owner : known.method.owner
        changed = Known.new(owner, known.name, now, changed)
        if owner.equal?(known.method.owner)
          define(owner, known.name, known.method)
          return changed
        end
        REMOVE.bind_call(owner, known.name)
        now = current(known.owner, known.name)
        now == known.method ? changed : put_back(known, now, changed)
      end

      def define(owner, name, method)
        verbose, $VERBOSE = $VERBOSE, nil
        DEFINE.bind_call(owner, name, method)
      ensure
        $VERBOSE = verbose
      end
    end

    # A module prepended to one of them hides its methods.
    module WatchLayers
      private

      def prepend_features(owner)
        Pristine.touched
        super
      end
    end

    NAMES.each_key { |owner| watch(owner) }
    Module.prepend(WatchLayers)
  end
end
