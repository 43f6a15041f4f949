/** The field `onDeny`: an answer to denied requests that replaces the problem details. */
import * as v from "valibot";
import { fields, integerFrom } from "../validation/problems.ts";

export interface DenialAnswer {
  readonly status: number;
  /** Null: problem details, with this status. */
  readonly body: string | null;
  readonly contentType: string;
}

const mostBodyBytes = 4_096;

const acceptedType = 'a media type such as "text/html; charset=utf-8"';
const mediaType = /^[!#$%&'*+.^_`|~0-9a-z-]+\/[!#$%&'*+.^_`|~0-9a-z-]+(?:\s*;[\x20-\x7e]*)?$/i;
const acceptedBody = `a well-formed text of at most ${mostBodyBytes} bytes`;

const entries = {
  status: v.optional(integerFrom(400, 599), 429),
  body: v.optional(
    v.pipe(
      v.string(acceptedBody),
      v.check((text) => text.isWellFormed(), acceptedBody),
      v.maxBytes(mostBodyBytes, acceptedBody),
    ),
  ),
  contentType: v.optional(v.pipe(v.string(acceptedType), v.regex(mediaType, acceptedType))),
};

export const onDenySchema = v.pipe(
  fields(entries),
  v.transform(({ status, body, contentType }): DenialAnswer => ({
    status,
    body: body ?? null,
    contentType: contentType ?? "text/plain; charset=utf-8",
  })),
);

/** The value of `onDeny`, in the JSON schema. */
export const writtenDenialAnswer = () =>
  v.strictObject({
    ...entries,
    contentType: v.optional(v.pipe(v.string(), v.regex(/^[!-.0-~]+\/[!-.0-~]+(?:\s*;.*)?$/))),
  });
