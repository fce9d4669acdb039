# frozen_string_literal: true

module ClocheAgent
  # Gems that are installed while a context lives. Its interpreter began before its environment. Without GEM_HOME
  # they are where root installs.
  module Packages
    extend Own

    class << self
      # Extend $LOAD_PATH and the places of gems like the start of an interpreter.
      def open
        $LOAD_PATH.unshift(*ENV.fetch("RUBYLIB", "").split(":").reject(&:empty?))
        Gem.clear_paths if Hooks.gems?
        @home = ENV["GEM_HOME"]
        look
      end

      # RubyGems reads its lists once; again when a gem was installed.
      def look
        home = @home || (Gem.default_dir if Hooks.gems?)
        return unless home
        stamp = File.mtime("#{home}/specifications")
        return if stamp == @seen
        @seen = stamp
        Gem.refresh if Hooks.gems?
      rescue SystemCallError
        nil # no gem was installed yet
      end
    end
  end
end
