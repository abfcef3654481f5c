// SPDX-License-Identifier: GPL-2.0
package workshop;

import workshop.IObserver;
import workshop.Item;

/** The service that the tests call. */
interface IWorkshop {
    /* Plain calls. */
    String echo(in String text);
    byte[] reverse(in byte[] data);
    Item improve(in Item item);
    int pid();
    /** Pid and effective uid of the caller, as the driver says. */
    int[] caller();
    /** Fails with this service specific error. */
    void fail(int error);

    /* Objects. */
    IBinder token();
    boolean isToken(in IBinder object);
    IBinder pass(in IBinder object);

    /* Calling back. */
    int askBack(in IObserver observer, int number);
    int askThread(in IObserver observer);
    oneway void tellBack(in IObserver observer, int count);
    /** Calls `peer.descend` with one less, until nothing is left; how deep it went. */
    int descend(in IWorkshop peer, in IWorkshop self, int levels);

    /* Without waiting. */
    oneway void post(int number);
    oneway void pour(in byte[] data);
    /** Numbers posted so far, in the order of arrival; forgets them. */
    int[] posted();

    /* File descriptors. */
    ParcelFileDescriptor pipeWith(in String text);
    String slurp(in ParcelFileDescriptor file);
    ParcelFileDescriptor[] pipes(int count);
    String slurpAll(in ParcelFileDescriptor[] files);
    int openFiles();

    /* Load. */
    /** Waits as long as told, and says how many waited at once. */
    int busy(int milliseconds);
    long sum(in long[] numbers);

    /* Ends. */
    /** Remember this object, and write its name down when its process dies. */
    void watch(in IBinder object, in String name);
    String[] mourned();
    oneway void die();

    /** What the security module calls the caller; empty if the driver says nothing. */
    String callerContext();
}
