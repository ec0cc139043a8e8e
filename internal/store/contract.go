// Package store keeps the folders of sandboxes. The truth about a sandbox is
// its own folder, written by its keeper alone: a record, a lock, a control
// socket and the event segments. Whoever wants to know what sandboxes there are
// reads the folders; no daemon is needed.
//
//	STATE/create.lock    held while a folder is being made, exclusively if it has a name
//	STATE/boxes/ID/
//	    record.json      api.Sandbox, replaced by rename
//	    lock             held (an open file description lock) by the keeper as long as it lives
//	    control.sock     the keeper's control socket, mode 0600
//	    events-000001.jsonl   api.Event, one a line, appended; capped, then the next number
//	    driver-*         the driver's
//	STATE/boxes/.new-*   a folder being made: renamed to its ID when it is whole and locked
//	STATE/boxes/.gone-*  a folder being removed
//
// A folder whose lock is free has no keeper. What is left of its box is swept
// by the next command.
//
// The package offers:
//
//	StateDir(getenv, uid) (string, error)       root: /run/caisson; a user: $XDG_RUNTIME_DIR/caisson, else
//	                                            $XDG_STATE_HOME/caisson, else ~/.local/state/caisson; CAISSON_STATE overrides
//	Open(dir) (*Store, error)                   makes it 0700; refuses one owned by somebody else or writable by others
//	(*Store).Create(rec api.Sandbox) (*Folder, error)   new id if rec.ID is empty; name must be free; takes the lock
//	(*Store).Acquire(id) (*Folder, error)       takes the lock of a folder that has no keeper: start, sweep
//	(*Store).List() ([]Entry, error)            Entry{api.Sandbox, Alive bool, Err error}: a broken record is an entry with Err, never a failure of all
//	(*Store).Find(idOrNameOrPrefix) (Entry, error)
//	(*Store).Events(id, from seq) iterator
//	(*Store).Sweep(ctx, destroy func(Entry) error) error  for each folder without keeper that is not kept: destroy, then remove
//	(*Folder).Path, ID, Record; Update(func(*api.Sandbox)) error; Append(api.Event) error (Seq, Time and Previous filled in);
//	Events(from seq) iterator; Close() error (releases the lock); Remove() error
//
// Writes are crash-safe against the death of a process, not of the machine: no
// fsync. An event that Append acknowledged is in the file in one write; a torn
// last line is skipped by readers.
//
// Everything is reached from one descriptor of the state folder, by name and
// without following a link. A keeper that confines itself needs, to remove its
// folder, the rights to rename and remove in STATE/boxes.
package store
