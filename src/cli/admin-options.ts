/** The options of commands that ask the admin API of a running Headgate. */
import type { CommandOptions } from "./command.ts";
import { sourceOptions } from "./configuration-source.ts";

export const tokenVariable = "HEADGATE_ADMIN_TOKEN";
export const localServer = "http://localhost:8787";

export const adminOptions = {
  token: {
    type: "string",
    value: "token",
    about: `A token with the right read; defaults to ${tokenVariable} or .dev.vars.`,
  },
  ...sourceOptions,
} as const satisfies CommandOptions;
