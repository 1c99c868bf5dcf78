package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rare is the annotation of the flags that a command's help leaves to --help-all.
const rare = "parley_rare"

// often has the help of cmd show these flags, and the others only with --help-all, which it adds. It is called when cmd
// has its flags.
func often(cmd *cobra.Command, names ...string) *cobra.Command {
	fs := cmd.Flags()
	fs.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(names, f.Name) {
			return
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[rare] = nil
	})
	all := fs.Bool("help-all", false, "show every flag")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*all {
			return run(cmd, args)
		}
		writeHelp(cmd.OutOrStdout(), cmd)
		return nil
	}
	return cmd
}

// leavesOut reports whether the help of cmd leaves out a flag.
func leavesOut(cmd *cobra.Command, f *pflag.Flag) bool {
	_, is := f.Annotations[rare]
	all := cmd.Flags().Lookup("help-all")
	return is && all != nil && all.Value.String() != "true"
}
